"""The last test: the database kept through all end-to-end tests, straight from its file."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.reading import chat, eventually, script

AT_LEAST = 200
FOLDER = Path(__file__).parent


def all_tests_ran(session) -> bool:
    """Whether no file of the folder, and by no -k no test of one, was left out."""
    ran = {item.path for item in session.items if item.path.parent == FOLDER}
    return ran == set(FOLDER.glob("test_*.py")) and not session.config.option.keyword


def test_the_books_hold_one_end_each_for_every_response_of_the_suite(site, api, request):
    (count,) = site.rows("SELECT COUNT(*) FROM streaming_response")[0]
    question = script(outputs=[{"text": "tick "}], repeat=3, delay_s=0.01)
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda _: chat(api, question), range(max(20, AT_LEAST - count))))
    eventually(lambda: site.rows("SELECT COUNT(*) FROM streaming_response WHERE end_state IS NULL") == [(0,)])

    assert site.rows("SELECT COUNT(*) FROM streaming_response")[0][0] >= AT_LEAST
    assert site.rows("SELECT id FROM streaming_response WHERE state != 'ended' OR ended_at IS NULL") == []
    assert (
        site.rows(
            "SELECT r.id FROM streaming_response r WHERE 1 != (SELECT COUNT(*) FROM streaming_responseevent e"
            " WHERE e.response_id = r.id AND e.kind = 'ended')"
        )
        == []
    )
    assert (
        site.rows(
            "SELECT r.id FROM streaming_response r WHERE r.last_seq != (SELECT MAX(seq) FROM streaming_responseevent e"
            " WHERE e.response_id = r.id) OR (r.erased_at IS NULL AND r.last_seq != (SELECT COUNT(*) FROM"
            " streaming_responseevent e WHERE e.response_id = r.id))"
        )
        == []
    )
    assert (
        site.rows(
            "SELECT r.id FROM streaming_response r JOIN streaming_responseevent e ON e.response_id = r.id"
            " AND e.kind = 'ended' WHERE e.seq != r.last_seq OR e.payload ->> 'end_state' != r.end_state"
        )
        == []
    )
    assert (
        site.rows(
            "SELECT id FROM streaming_response"
            " WHERE NOT (delivered_tokens <= sent_tokens AND sent_tokens <= generated_tokens)"
        )
        == []
    )
    for generated, attempts in site.rows("SELECT generated_tokens, CAST(attempts AS text) FROM streaming_response"):
        assert generated == sum(attempt["generated_tokens"] for attempt in json.loads(attempts))
    assert site.rows("SELECT id FROM streaming_response WHERE prompt_ids IS NOT NULL") == []
    for response_id, output_text in site.rows("SELECT id, output_text FROM streaming_response"):
        assert site.log_text(response_id) == output_text
    if all_tests_ran(request.session):
        states = {state for (state,) in site.rows("SELECT DISTINCT end_state FROM streaming_response")}
        assert {"completed", "cancelled", "abandoned", "errored", "truncated", "rejected"} <= states
