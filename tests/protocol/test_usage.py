"""Owns the laws of counting: a later report replaces, zero is a value, sent never exceeds generated."""

from hypothesis import given

from streaming.protocol.engine_output import EngineUsage
from streaming.protocol.usage import Usage, count, latest
from tests.protocol.tape import inputs


def report(tape):
    return EngineUsage(*[None if tape.flag() else tape.below(51) for _ in range(3)])


def reports(tape, at_least=0):
    return tape.many(lambda: report(tape), 5, at_least)


def test_a_report_replaces_what_it_gives_and_an_explicit_zero_is_a_value():
    first = Usage(generated_tokens=5).absorb(EngineUsage(7, 5, 3))
    assert (first.prompt_tokens, first.cached_tokens, first.generated_tokens, first.estimated) == (7, 3, 5, False)
    second = first.absorb(EngineUsage(cached_tokens=0, completion_tokens=9))
    assert (second.prompt_tokens, second.cached_tokens, second.generated_tokens) == (7, 0, 9)


def test_without_a_reported_count_the_usage_stays_estimated():
    assert Usage(generated_tokens=5).absorb(EngineUsage(prompt_tokens=7)).to_payload() == {
        "prompt_tokens": 7, "cached_tokens": None, "generated_tokens": 5, "completion_tokens": 0,
        "sent_tokens": 0, "delivered_tokens": 0, "estimated": True,
    }  # fmt: skip


def test_what_earlier_attempts_made_is_no_prompt_and_is_generated_once():
    usage = Usage(generated_tokens=12, completion_tokens=12).absorb(EngineUsage(30, 4), earlier_tokens=10)
    assert (usage.prompt_tokens, usage.generated_tokens) == (20, 14)


@given(inputs(32, lambda tape: (tape.below(51), reports(tape))))
def test_no_report_makes_more_sent_than_generated(case):
    sent, given_reports = case
    usage = Usage(generated_tokens=sent, completion_tokens=sent, sent_tokens=sent)
    for report in given_reports:
        usage = usage.absorb(report)
    assert usage.delivered_tokens <= usage.sent_tokens <= usage.generated_tokens


@given(inputs(32, lambda tape: reports(tape, at_least=1)))
def test_the_latest_report_of_a_count_is_the_one_that_stands(given_reports):
    stands = None
    for report in given_reports:
        stands = latest(stands, report)
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        values = [getattr(report, name) for report in given_reports if getattr(report, name) is not None]
        assert getattr(stands, name) == (values[-1] if values else None)


def test_a_missing_count_is_zero_on_a_wire():
    assert [count({"a": 3, "b": None}, name) for name in "abc"] == [3, 0, 0]
