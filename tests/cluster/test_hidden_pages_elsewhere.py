"""A hidden page whose socket is at one web process and whose answer runs at another, on PostgreSQL. About 20 s."""

import contextlib
import json

import pytest

from tests.e2e.reading import eventually, read
from tests.e2e.talking import said, talk

#: A page that is not counted within it loses its answer.
POLICY = {"X-Disconnect-Policy": "grace=1"}
#: So many ticks of 20 ms are several times the grace.
LONG = 150
TICK = "tick "


@pytest.fixture
def ann(both):
    with contextlib.closing(both[0].page("ann")) as client:
        yield client


def hidden(one, two, ann):
    """An answer that runs at one, and the page's socket at two by which alone it is read."""
    with contextlib.ExitStack() as opened:
        page = opened.enter_context(talk(two, ann))
        said(page, "hello")
        ann.base_url = one.url
        chat_id = ann.post("/api/conversations", json={}).json()["id"]

        def hides(stream):
            if len(stream.seqs) < 3:
                return False
            page.send(json.dumps({"type": "reading", "response": stream.response_id}))
            said(page, "reading")
            counted = one.rows(
                "SELECT readers FROM streaming_readerpresence WHERE response_id = %s", stream.response_id
            )
            assert counted == [(1,)], "it was said before whoever runs the answer could see it"
            return True

        path = f"/api/conversations/{chat_id}/messages"
        cut = read(ann, "POST", path, json={"text": "go", "model": "ticks"}, headers=POLICY, until=hides)
        return opened.pop_all(), page, cut


def grows(site, response_id: str) -> None:
    seen = len(site.log_text(response_id))
    eventually(lambda: len(site.log_text(response_id)) > seen + LONG * len(TICK))


def test_a_page_elsewhere_keeps_an_answer_and_its_socket_ending_gives_it_up(both, ann):
    one, two = both
    opened, page, cut = hidden(one, two, ann)
    with opened:
        grows(one, cut.response_id)
        page.close()
        eventually(lambda: one.row(cut.response_id)["end_state"])
    row = one.row(cut.response_id)
    assert (row["end_state"], row["end_reason"], row["epoch"]) == ("abandoned", "disconnected", 1)
    assert row["delivered_tokens"] < len(cut.text) + LONG < row["generated_tokens"]


def test_an_answer_whose_process_is_killed_is_carried_on_for_a_hidden_page_that_is_then_told_its_end(both, ann):
    """Without Valkey: what ends elsewhere is seen in the rows."""
    one, two = both
    opened, page, cut = hidden(one, two, ann)
    with opened:
        one.kill()
        eventually(lambda: two.row(cut.response_id)["epoch"] == 2)
        grows(two, cut.response_id)
        one.start()
        ann.base_url = one.url
        ann.post(f"/api/responses/{cut.response_id}/cancel")
        told = said(page, lambda m: m["type"] == "response.ended" and m["response"] == cut.response_id)
        assert told["type"] == "response.ended"
    row = one.row(cut.response_id)
    assert (row["end_state"], row["epoch"]) == ("cancelled", 2)
    rest = read(ann, "GET", f"/api/responses/{cut.response_id}/stream", headers={"Last-Event-ID": cut.last_id})
    assert cut.text + rest.text == row["output_text"]


def test_an_end_at_another_process_that_nobody_told_is_seen_in_the_rows(both, ann):
    one, two = both
    opened, page, cut = hidden(one, two, ann)
    with opened:
        ann.post(f"/api/responses/{cut.response_id}/cancel")
        said(page, lambda m: m == {"type": "response.ended", "response": cut.response_id})
