"""What a reply to a line of a batch means for the line, and how long its worker waits. Costs nothing."""

import pytest

from streaming.tasks.batch_reply import FAULTS_MAX, Meaning, meaning_of, pause_s
from streaming.tasks.own_api import Reply


def reply(status, headers=None, **error):
    return Reply(status, headers or {}, {"error": error} if error else {})


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (reply(200), Meaning.ANSWERED),
        (reply(400, code="invalid_request"), Meaning.REFUSED),
        (reply(403, code="model_not_allowed"), Meaning.REFUSED),
        (reply(403, code="scope"), Meaning.NO_RIGHT),
        (reply(401, code="key_revoked"), Meaning.NO_RIGHT),
        (reply(401, code="key_expired"), Meaning.NO_RIGHT),
        (reply(401, code="invalid_api_key"), Meaning.AGAIN),
        (reply(409, code="cancelled", end_state="cancelled", end_reason="api"), Meaning.REFUSED),
        (reply(429, {"Retry-After": "7"}, code="rate_limited"), Meaning.AGAIN),
        (reply(429, {"x-should-retry": "false"}, code="rate_limited"), Meaning.REFUSED),
        (reply(503, {"Retry-After": "5"}, code="overloaded"), Meaning.AGAIN),
        (reply(529, code="overloaded"), Meaning.AGAIN),
        (reply(503, code="queue", end_state="timed_out", end_reason="queue"), Meaning.ANEW),
        (reply(503, code="storage", end_state="errored", end_reason="storage"), Meaning.REFUSED),
        (reply(502, code="upstream_error", end_state="errored", end_reason="upstream_error"), Meaning.REFUSED),
        (reply(500, code="internal"), Meaning.AGAIN),
        (reply(502), Meaning.AGAIN),
        (reply(408, code="body_timeout"), Meaning.AGAIN),
    ],
)
def test_what_a_reply_means_for_its_line(answer, meaning):
    assert meaning_of(answer, 0) is meaning


def test_a_fault_of_the_servers_is_not_met_for_ever():
    assert meaning_of(reply(500, code="internal"), FAULTS_MAX) is Meaning.REFUSED
    assert meaning_of(reply(503, code="overloaded"), 1000) is Meaning.AGAIN


def test_pauses_heed_what_the_server_says_and_grow_to_a_bound():
    assert all(7 <= pause_s(reply(503, {"Retry-After": "7"}), 0) <= 8.75 for _ in range(50))
    assert pause_s(reply(429, {"Retry-After": "3600"}), 0) >= 3600
    assert all(pause_s(None, tries) <= 37.5 for tries in (0, 5, 10_000))
    assert max(pause_s(None, 0) for _ in range(50)) < min(pause_s(None, 2) for _ in range(50))
    assert pause_s(reply(503, {"Retry-After": "soon"}), 0) <= 1.25
