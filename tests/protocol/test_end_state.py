"""Owns the table of ends: every happening has exactly one, the first stays, finish_reason is never invented."""

from itertools import product

import pytest

from streaming.protocol import end_state
from streaming.protocol.end_state import END_STATES, OUTCOMES, REASONS, End, decide, default_message
from tests.protocol import end_state_table

EVERY_END = [(state, reason) for state in END_STATES for reason in REASONS[state]]


@pytest.mark.parametrize(
    ("happening", "detail", "expected"),
    [
        ("finished", "stop", ("completed", "stop")),
        ("finished", "length", ("completed", "length")),
        ("finished", "tool_calls", ("completed", "tool_calls")),
        ("finished", "content_filter", ("completed", "content_filter")),
        ("finished", "abort", ("errored", "engine_aborted")),
        ("finished", "eaten by a bear", ("errored", "upstream_protocol")),
        ("engine_failed", "upstream_error", ("errored", "upstream_error")),
        ("engine_failed", "upstream_protocol", ("errored", "upstream_protocol")),
        ("engine_failed", "engine_aborted", ("errored", "engine_aborted")),
        ("engine_failed", "upstream_lost", ("truncated", "upstream_lost")),
        ("engine_failed", "?", ("errored", "upstream_protocol")),
        ("timer_fired", "queue", ("timed_out", "queue")),
        ("timer_fired", "ttft", ("timed_out", "ttft")),
        ("timer_fired", "idle", ("timed_out", "idle")),
        ("timer_fired", "total", ("timed_out", "total")),
        ("stopped", "user", ("cancelled", "user")),
        ("stopped", "api", ("cancelled", "api")),
        ("stopped", "admin", ("cancelled", "admin")),
        ("stopped", "superseded", ("cancelled", "superseded")),
        ("stopped", "deleted", ("cancelled", "deleted")),
        ("readers_gone", "", ("abandoned", "disconnected")),
        ("owner_lost", "", ("truncated", "relay_lost")),
        ("storage_failed", "", ("errored", "storage")),
        ("bug", "", ("errored", "internal")),
        ("refused", "over_quota", ("rejected", "over_quota")),
        ("timer_fired", "no such timer", ("errored", "internal")),
    ],
)
def test_what_happened_leads_to_its_end(happening, detail, expected):
    end = decide(None, happening, detail)
    assert (end.end_state, end.end_reason) == expected
    assert end.finish_reason == (detail if expected[0] == "completed" else None)


def test_every_end_can_happen_and_nothing_else_does():
    assert set(OUTCOMES.values()) == set(EVERY_END)


def test_every_pair_of_a_state_and_what_happens_is_decided_and_the_first_end_wins():
    """In a response that has not ended the table decides; one that has ended stays as it is."""
    for happening, expected in OUTCOMES.items():
        end = decide(None, *happening)
        assert (end.end_state, end.end_reason) == expected
    for (state, reason), happening in product(EVERY_END, OUTCOMES):
        end = End(state, reason, finish_reason=reason if state == "completed" else None, error_message="the first")
        assert decide(end, *happening, message="the second") is end


def test_what_is_known_goes_into_the_end_and_a_detail_may_be_missing():
    assert decide(None, "readers_gone") == End("abandoned", "disconnected")
    assert decide(None, "owner_lost", message="The machine went away.").error_message == "The machine went away."
    assert decide(None, "finished", "stop").to_payload({})["finish_reason"] == "stop"
    assert decide(None, "stopped", "user").to_payload({})["finish_reason"] is None


def test_the_table_in_the_docs_is_drawn_from_the_code():
    assert end_state_table.in_docs() == end_state_table.drawn(), "run: python -m tests.protocol.end_state_table"


def test_a_reason_of_another_state_and_an_invented_finish_reason_are_refused():
    with pytest.raises(ValueError, match="no end reason"):
        End("completed", "disconnected", finish_reason="stop")
    with pytest.raises(ValueError, match="no end reason"):
        End("vanished", "stop")
    with pytest.raises(ValueError, match=r"^a finish_reason goes with completed, and only with it$"):
        End("cancelled", "user", finish_reason="stop")
    with pytest.raises(ValueError, match="finish_reason"):
        End("completed", "stop")


@pytest.mark.parametrize(("state", "reason"), EVERY_END)
def test_the_ended_event_names_an_error_exactly_when_something_went_wrong(state, reason):
    end = End(state, reason, finish_reason=reason if state == "completed" else None)
    payload = end.to_payload({"completion_tokens": 3})
    assert (payload["end_state"], payload["end_reason"]) == (state, reason)
    assert payload["usage"] == {"completion_tokens": 3}
    assert payload["stop"] is None
    if state in ("completed", "cancelled", "abandoned"):
        assert payload["error"] is None
    else:
        assert payload["error"] == {"code": reason, "message": default_message(state, reason)}


def test_what_is_known_of_an_error_and_of_a_stop_is_kept():
    payload = End("errored", "upstream_error", error_message="Out of memory.").to_payload({}, {"stop_ms": 12.5})
    assert payload["error"] == {"code": "upstream_error", "message": "Out of memory."}
    assert payload["stop"] == {"stop_ms": 12.5}


def test_the_ended_event_names_the_stop_string_that_ended_the_answer_and_else_has_no_such_member():
    end = decide(None, "finished", "stop")
    assert end.to_payload({}, stop_sequence="\n\n")["stop_sequence"] == "\n\n"
    assert "stop_sequence" not in end.to_payload({})


def test_every_happening_has_a_name_of_its_own():
    names = {happening for happening, _ in OUTCOMES}
    assert names == {
        end_state.FINISHED, end_state.ENGINE_FAILED, end_state.TIMER_FIRED, end_state.STOPPED, end_state.REFUSED,
        end_state.READERS_GONE, end_state.OWNER_LOST, end_state.STORAGE_FAILED, end_state.BUG,
    }  # fmt: skip
