"""Owns the laws of reports: a later one replaces, zero is a value, nothing is none."""

from hypothesis import given

from streaming.protocol.engine_output import EngineUsage
from streaming.protocol.usage import count, latest
from tests.protocol.tape import inputs


def report(tape):
    return EngineUsage(*[None if tape.flag() else tape.below(51) for _ in range(3)])


def reports(tape):
    return tape.many(lambda: report(tape), 5, at_least=1)


@given(inputs(32, reports))
def test_the_latest_report_of_a_count_is_the_one_that_stands(given_reports):
    stands = None
    for report in given_reports:
        stands = latest(stands, report)
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        values = [getattr(report, name) for report in given_reports if getattr(report, name) is not None]
        assert getattr(stands, name) == (values[-1] if values else None)


def test_a_missing_count_is_zero_on_a_wire():
    assert [count({"a": 3, "b": None}, name) for name in "abc"] == [3, 0, 0]
