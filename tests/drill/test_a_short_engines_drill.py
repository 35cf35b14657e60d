"""The parts of the engines' drill that need no vLLM, on one pair of sites; some are shorter than there."""

import asyncio
import os

import pytest

from tests.drill.engines import coming_back, deaths, flood, freeing, one_of_many
from tests.drill.engines.findings import broken, table
from tests.drill.engines.stage import stage

SEED = int(os.environ.get("SEED") or 6)
#: Each way and each phase; the drill has all of both.
CELLS = [
    ("stop", "queued", {}),
    ("stop", "prefill", {}),
    ("stop", "decode", {}),
    ("disconnect", "prefill", {}),
    ("caller gone", "decode", {}),
    ("superseded", "decode", {}),
    ("timer", "queued", freeing.SLOT_OR_END),
    ("timer", "decode", freeing.SLOT_OR_END),
    ("shutdown", "decode", freeing.SLOT_OR_END),
]

#: The drill itself has 1 s, on a machine that does nothing else. An engine that nobody tells works on for 8 s and more,
#: and one that is told may stand still for three.
FREE_S = 5.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def on(tmp_path_factory, model_dir):
    # Nobody dies here, and an engine that stands still for a while is not one that does not stop.
    patience = {"DEAD_S": "20", "STOP_PROOF_S": "20"}
    with stage(tmp_path_factory.mktemp("engines"), model_dir, SEED, **patience) as built:
        yield built


def holds(part):
    findings = asyncio.run(part)
    print(table(findings))
    return findings != [] and broken(findings) == []


@pytest.mark.engine
def test_a_worker_is_soon_free_in_whatever_way_and_phase_an_answer_is_left(on, monkeypatch):
    monkeypatch.setattr(freeing, "FREE_S", FREE_S)
    assert holds(freeing.llama(on, CELLS))


@pytest.mark.engine
def test_one_of_two_workers_is_killed_amid_eight_answers_and_all_complete(on):
    assert holds(deaths.llama_worker_dies(on))


def test_one_of_two_engines_is_killed_amid_a_hundred_answers_and_nothing_is_lost_or_twice(on):
    assert holds(deaths.fault_server_dies(on, "vllm"))


def test_a_hundred_answers_that_are_carried_on_say_what_they_would_have_said_undisturbed(on):
    assert holds(deaths.scripted_engine_dies(on))


def test_an_engine_that_is_back_serves_again_and_is_not_trampled(on):
    assert holds(coming_back.engine_comes_back(on, gone_s=1.5))


def test_of_two_hundred_at_one_engine_those_who_are_refused_are_told_when_to_come(on):
    assert holds(flood.too_many_ask(on))


def test_each_tenth_of_a_hundred_is_stopped_and_the_others_stay_exact(on):
    assert holds(one_of_many.each_tenth_is_stopped(on))


def test_afterwards_every_law_holds_and_nobody_logged_an_error(on):
    assert [*on.broken_laws([]), *on.complaints()] == []
