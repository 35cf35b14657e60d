"""A budget judges what was measured, forgives a crowded machine only its wall times, and never passes unmeasured."""

import pytest

from bench.budget import RATIO, TIMED, Budget, counted, failed, figure, quotient, timed, times
from bench.budgets import BUDGETS, of_parts
from bench.figures import FIGURES, HIGHEST
from bench.measure import Measure
from bench.parts import PARTS
from bench.results import Results
from bench.sides import BARE, OURS
from bench.table import tables


def results_of(*values, failures=(), side=OURS):
    return Results([Measure("part", "case", side, each, failures) for each in values])


@pytest.mark.parametrize(
    ("measured", "verdict"), [(1.0, "ok"), (1.01, "over"), (RATIO, "over"), (RATIO + 0.01, "broken")]
)
def test_a_ratio_may_pass_its_limit_by_its_slack_only(measured, verdict):
    results = Results([*results_of({"threads": measured}).measures, *results_of({"threads": 1}, side=BARE).measures])
    of_ours, of_bare = (figure("part", "case", "threads", side) for side in (OURS, BARE))
    assert times("part", "ratio", RATIO, quotient(of_ours, of_bare), "").verdict(results) == verdict


@pytest.mark.parametrize(("others_percent", "verdict"), [(5, "broken"), (50, "crowded")])
def test_only_wall_times_are_forgiven_and_only_on_a_crowded_machine(others_percent, verdict):
    results = results_of({"healthz_p99_ms": 10 * TIMED, "threads": 33, "others_percent": others_percent})
    assert timed("part", "late", 1, "ms", figure("part", "case", "healthz_p99_ms"), "").verdict(results) == verdict
    assert counted("part", "many", 32, figure("part", "case", "threads"), "").verdict(results) == "broken"


def test_what_was_not_measured_is_missing():
    assert counted("part", "x", 1, figure("part", "case", "threads"), "").verdict(Results()) == "missing"
    assert failed("part").verdict(Results()) == "missing"
    ratio_of_nothing = quotient(figure("part", "case", "threads"), figure("part", "case", "threads", BARE))
    assert times("part", "x", RATIO, ratio_of_nothing, "").verdict(results_of({"threads": 3})) == "missing"


def test_one_failed_stream_breaks_a_part():
    assert failed("part").verdict(results_of({})) == "ok"
    broken = results_of({}, failures=("cut",))
    broken.measures.append(Measure("other", "case", OURS, {}))
    assert failed("part").verdict(broken) == "broken"
    assert failed("other").verdict(broken) == "ok"


def test_of_rounds_the_middle_counts_and_of_memory_the_highest():
    rounds = results_of(*({"ttft_p50_ms": value, "kb_per_stream": value} for value in (9, 1, 2)))
    assert figure("part", "case", "ttft_p50_ms")(rounds) == 2
    assert figure("part", "case", "kb_per_stream")(rounds) == 9


class Asked(Results):
    """Results that remember which figures somebody asks for."""

    def middle(self, part, case, side, name):
        self.measures.append((part, case, name))
        return 1.0

    highest = middle


def test_every_budget_asks_for_figures_that_the_table_shows_of_its_own_part():
    parts = {part.name for part in PARTS}
    for budget in BUDGETS:
        asked = Asked()
        budget.measured(asked)
        assert budget.part in parts
        assert {part for part, _, _ in asked.measures} <= {budget.part}
        assert {name for _, _, name in asked.measures} <= FIGURES.keys()
    assert FIGURES.keys() >= HIGHEST


def test_a_run_of_some_parts_is_judged_by_their_budgets_alone():
    assert {budget.part for budget in of_parts(["idle", "storm"])} == {"idle", "storm"}


def test_the_table_shows_every_case_and_says_what_failed():
    results = results_of({"threads": 12}, failures=("cut at token 7",))
    shown = tables(results, [Budget("part", "threads", 8, "", 1, figure("part", "case", "threads"), "a reason")])
    for words in ("part: case", "threads at peak (highest round)", "broken", "a reason", "cut at token 7"):
        assert words in shown
