"""A page that closed its stream and reads by its socket alone: it counts as a reader, and as nothing more.

A site of its own, where nobody is waited for longer than GRACE_S. Costs about 12 s.
"""

import contextlib
import json
import re

import httpx
import pytest

from tests.e2e.reading import eventually, read, script
from tests.e2e.site import Site
from tests.e2e.talking import closing, said, talk

GRACE_S = 0.3
TOKEN = "t" * 40
TICK_S = 0.02
#: So many ticks are made in several times GRACE_S.
LONG = 60
ENDLESS = script(outputs=[{"text": "tick "}], repeat=0, delay_s=TICK_S)
COUNTING = script(outputs=[{"text": f"w{number} "} for number in range(100)], repeat=0, delay_s=TICK_S)


@pytest.fixture(scope="module")
def site(tmp_path_factory, model_dir):
    site = Site(
        tmp_path_factory.mktemp("hidden"),
        model_dir,
        PAGE_GRACE_S=str(GRACE_S),
        HEARTBEAT_S="1",
        METRICS_TOKEN=TOKEN,
        PAGEHIDE_GRACE_S=str(GRACE_S),
    )
    site.prepare()
    site.manage(
        "add_engine", "--kind", "scripted", "--model", "scripted", "--name", "s", "--slots", "50",
        "--context", "100000",
    )  # fmt: skip
    site.start()
    yield site
    site.stop()


@pytest.fixture(scope="module")
def ann(site):
    with contextlib.closing(site.page("ann")) as client:
        yield client


@pytest.fixture
def pages(site):
    """Opens sockets that have been greeted, and closes them after the test."""
    with contextlib.ExitStack() as opened:

        def open_page(client):
            page = opened.enter_context(talk(site, client))
            said(page, "hello")
            return page

        yield open_page


def say(page, kind: str, response_id: str) -> None:
    page.send(json.dumps({"type": kind, "response": response_id}))


def hide(page, response_id: str) -> None:
    """What a page does before it closes its stream."""
    say(page, "reading", response_id)
    assert said(page, lambda m: m["type"] in ("reading", "not_reading")) == {"type": "reading", "response": response_id}


def asked_and_hidden(client, *sockets, text: str = ENDLESS, headers: dict[str, str] | None = None):
    """An answer whose stream was closed after a few events, when each of the sockets counted; what was read of it."""
    chat_id = client.post("/api/conversations", json={}).json()["id"]

    def hides(stream):
        if len(stream.seqs) < 3:
            return False
        for page in sockets:
            hide(page, stream.response_id)
        return True

    path = f"/api/conversations/{chat_id}/messages"
    return read(client, "POST", path, json={"text": text}, headers=headers or {}, until=hides)


def readers(site) -> int:
    """How many count as readers there."""
    text = httpx.get(f"{site.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60).text
    return int(float(re.search(r"^chat_readers (\S+)$", text, re.MULTILINE)[1]))


def outlives_the_grace(site, response_id: str) -> None:
    seen = len(site.log_text(response_id))
    eventually(lambda: len(site.log_text(response_id)) > seen + 5 * LONG)
    assert site.row(response_id)["end_state"] is None


def is_given_up(site, response_id: str) -> dict:
    eventually(lambda: site.row(response_id)["end_state"])
    row = site.row(response_id)
    assert (row["end_state"], row["end_reason"]) == ("abandoned", "disconnected")
    return row


def test_an_answer_goes_on_for_a_page_that_says_it_reads_and_is_given_up_when_it_says_it_does_not(site, ann, pages):
    page = pages(ann)
    cut = asked_and_hidden(ann, page)
    outlives_the_grace(site, cut.response_id)
    say(page, "not_reading", cut.response_id)
    row = is_given_up(site, cut.response_id)
    read_tokens = len(cut.text)  # the scripted engine's are characters
    # What left for the stream may have been more than was read of it; what was made afterwards was shown to nobody.
    assert read_tokens <= row["delivered_tokens"] < row["generated_tokens"] - LONG
    assert said(page, "response.ended")["response"] == cut.response_id


def test_a_socket_that_closes_is_a_reader_that_left(site, ann, pages):
    page = pages(ann)
    cut = asked_and_hidden(ann, page)
    outlives_the_grace(site, cut.response_id)
    page.close()
    is_given_up(site, cut.response_id)


def test_a_page_that_comes_back_reads_on_from_where_it_was_and_an_end_it_was_told_of(site, ann, pages):
    page = pages(ann)
    cut = asked_and_hidden(ann, page, text=COUNTING)
    outlives_the_grace(site, cut.response_id)
    ann.post(f"/api/responses/{cut.response_id}/cancel").raise_for_status()
    assert said(page, "response.ended")["response"] == cut.response_id
    path = f"/api/responses/{cut.response_id}/stream"
    rest = read(ann, "GET", path, headers={"Last-Event-ID": cut.last_id})
    assert cut.text + rest.text == site.log_text(cut.response_id) == site.row(cut.response_id)["output_text"]
    assert rest.data[-1]["response"]["end_state"] == "cancelled"
    sent_tokens = site.row(cut.response_id)["sent_tokens"]
    assert sent_tokens == len(cut.text + rest.text)
    eventually(lambda: site.row(cut.response_id)["delivered_tokens"] == sent_tokens)


def test_an_answer_is_kept_until_the_last_of_two_hidden_pages_has_gone(site, ann, pages):
    one, two = pages(ann), pages(ann)
    cut = asked_and_hidden(ann, one, two)
    one.close()
    outlives_the_grace(site, cut.response_id)
    say(two, "not_reading", cut.response_id)
    is_given_up(site, cut.response_id)


def test_without_a_socket_that_counts_a_closed_stream_is_a_reader_that_left(site, ann, pages):
    pages(ann)
    is_given_up(site, asked_and_hidden(ann).response_id)


def test_a_beacon_shortens_the_grace_of_a_hidden_page_that_goes(site, ann, pages):
    page = pages(ann)
    cut = asked_and_hidden(ann, page, headers={"X-Disconnect-Policy": "grace=600"})
    assert ann.post(f"/api/responses/{cut.response_id}/leaving").status_code == 204
    outlives_the_grace(site, cut.response_id)
    page.close()
    is_given_up(site, cut.response_id)


def test_only_answers_of_the_users_own_conversations_that_run_can_be_kept(site, ann, pages):
    with contextlib.closing(site.page("bob")) as bob:
        anns, bobs = pages(ann), pages(bob)
        cut = asked_and_hidden(ann, anns)
        say(bobs, "reading", cut.response_id)
        refused = {"type": "not_reading", "response": cut.response_id, "code": "not_found"}
        assert said(bobs, "not_reading") == refused
        say(bobs, "reading", "resp_" + "0" * 26)
        assert said(bobs, "not_reading")["code"] == "not_found"
        say(anns, "not_reading", cut.response_id)
        is_given_up(site, cut.response_id)
        say(anns, "reading", cut.response_id)
        assert said(anns, "not_reading")["code"] == "ended"


def test_a_page_that_claims_thousands_keeps_sixteen_and_is_closed(site, ann, pages):
    """By the row of a person who has 17 running answers, and by the socket's own allowance."""
    page = pages(ann)
    cuts = [asked_and_hidden(ann, headers={"X-Disconnect-Policy": "background"}) for _ in range(17)]
    for cut in cuts[:16]:
        hide(page, cut.response_id)
    say(page, "reading", cuts[16].response_id)
    assert said(page, "not_reading") == {
        "type": "not_reading", "response": cuts[16].response_id, "code": "rate_limited",
    }  # fmt: skip
    # Those whose streams were closed have left as soon as the site has seen it.
    eventually(lambda: readers(site) == 16)
    with contextlib.suppress(Exception):
        for number in range(10_000):
            say(page, "reading", f"resp_{number:026d}")
    assert closing(page)[0] in (4430, 1008)
    eventually(lambda: readers(site) == 0)
    for cut in cuts:
        ann.post(f"/api/responses/{cut.response_id}/cancel")
