"""Tabs that nobody looks at give their connection back, and their answers go on: HTTP/1.1, straight to the web process.

A site of its own, where nobody is waited for longer than GRACE_S. A headless Chromium hides no tab, so the tabs
are told that they are hidden; streams, sockets and the six connections are real. Conversations of one tab that are not
shown do the same. Costs about 75 s.
"""

import re
import signal
from contextlib import closing

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.test_lost_connections import COUNTED, LOST, WHOLE, Counting
from tests.browser.wire import Wire
from tests.e2e.reading import eventually
from tests.e2e.site import Site

TABS = 8
#: Longer than a browser or a server stands still on a busy machine.
GRACE_S = "3.5"
PATIENT = "grace=30"
ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.1}
#: So much of the answer is made when the tab has been without a stream for longer than the grace.
LATER = len(WHOLE) * 5 // 6
HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
PROTOCOLS = """[...new Set(
  performance.getEntriesByType('resource').map(entry => entry.nextHopProtocol).filter(name => name !== '')
)]"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, model_dir):
    settings = {"PAGE_GRACE_S": GRACE_S, "PAGEHIDE_GRACE_S": GRACE_S, "DJANGO_SETTINGS_MODULE": "tests.gates.settings"}
    site = Site(tmp_path_factory.mktemp("tabs"), model_dir, **settings)
    site.prepare()
    site.scripted()
    return site


@pytest.fixture(scope="module")
def offered(prepared):
    return Counting(prepared, delay_s=0.03)


@pytest.fixture(scope="module")
def impatient(prepared, offered):
    prepared.start()
    yield prepared
    prepared.stop()


@pytest.fixture(scope="module")
def session(impatient):
    client = impatient.page("ann")
    yield client.cookies["sessionid"]
    client.close()


class Streams:
    """The streams that the tabs of a browser have open."""

    def __init__(self, context):
        self._open = set()
        context.on("request", lambda request: self._is_one(request) and self._open.add(request))
        for over in ("requestfinished", "requestfailed"):
            context.on(over, self._is_over)

    @staticmethod
    def _is_one(request) -> bool:
        return bool(re.search("/(messages|stream)$", request.url)) and request.resource_type == "fetch"

    def _is_over(self, request) -> None:
        self._open.discard(request)

    def become(self, count: int, page) -> None:
        eventually(lambda: page.evaluate("1") and len(self._open) == count)


@pytest.fixture
def browser_of_ann(watched, session):
    def browser_of_ann(url: str):
        context, watch = watched(url)
        watch.allow(LOST)
        context.add_cookies([{"name": "sessionid", "value": session, "url": url}])
        return ChatPage(context.new_page(), watch, url).open(), Streams(context)

    return browser_of_ann


@pytest.fixture
def wire(impatient):
    wire = Wire(impatient.port)
    yield wire
    wire.close()


def hide(tab: ChatPage, hidden: bool = True) -> None:
    tab.page.evaluate(HIDE, hidden)


@pytest.fixture
def counting(browser_of_ann, wire, offered):
    """A tab in mid-answer that is hidden and has given its stream back. The answer waits."""
    offered.again()
    tab, streams = browser_of_ann(wire.url)
    expect(tab.page.get_by_test_id("model").locator("option")).to_have_count(2)
    tab.choose(offered.model)
    tab.ask("Count for me")
    tab.writes(20)
    hide(tab)
    streams.become(0, tab.page)
    return tab, streams


def is_whole(impatient, tab: ChatPage, epoch: int = 1) -> None:
    """All of it, nothing twice, nothing else on the way, asked for once; and taken by the page, as the row says."""
    tab.ends()
    expect(tab.markdown).to_have_text(WHOLE)
    assert [paint["text"] for paint in tab.probe("paints") if not WHOLE.startswith(paint["text"].rstrip())] == []
    assert tab.watch.sent.count(("POST", f"/api/conversations/{tab.conversation_id}/messages")) == 1
    row = impatient.row(tab.response_id)
    assert (row["end_state"], row["epoch"], row["output_text"]) == ("completed", epoch, WHOLE + " ")
    eventually(lambda: impatient.row(tab.response_id)["delivered_tokens"] == row["sent_tokens"])


def made_later(impatient, offered, tab: ChatPage) -> None:
    """Wait until much was made that the hidden tab does not have."""
    shown = tab.text
    offered.middle.open()
    eventually(lambda: len(impatient.log_text(tab.response_id)) > LATER)
    assert tab.text == shown
    assert len(shown) < LATER // 2


def test_of_eight_tabs_the_one_in_front_stops_and_asks_at_once_and_the_others_go_on(impatient, browser_of_ann):
    tab, streams = browser_of_ann(impatient.url)
    tabs = [tab, *(tab.second_tab("/") for _ in range(TABS - 1))]
    for tab in tabs:
        tab.choose("scripted")
        tab.play(**ENDLESS)
        tab.writes()
        if tab is not tabs[-1]:
            hide(tab)
    assert tab.page.evaluate(PROTOCOLS) == ["http/1.1"]
    ids = [tab.response_id for tab in tabs]
    assert len(set(ids)) == TABS
    streams.become(1, tab.page)
    tab.stop.click()
    tab.ends("cancelled")
    tab.play(outputs=[{"text": "done"}])
    tab.ends()
    for hidden, response_id in zip(tabs[:-1], ids, strict=False):
        assert impatient.row(response_id)["end_state"] is None
        hide(hidden, False)
        shown = len(hidden.text)
        hidden.writes(shown + 50)
        hidden.stop.click()
        hidden.ends("cancelled")


def test_of_eight_conversations_that_answer_in_one_tab_the_shown_one_is_read_and_none_is_lost(
    impatient, browser_of_ann
):
    tab, streams = browser_of_ann(impatient.url)
    expect(tab.page.get_by_test_id("model").locator("option")).to_have_count(2)
    ids = {}
    for _ in range(TABS):
        tab.page.keyboard.press("Control+Shift+O")
        tab.choose("scripted")
        tab.play(outputs=[{"text": f"{word} "} for word in COUNTED], repeat=0, delay_s=0.1)
        tab.writes()
        ids[tab.path] = tab.response_id
    assert tab.page.evaluate(PROTOCOLS) == ["http/1.1"]
    streams.become(1, tab.page)
    assert tab.page.evaluate("fetch('/api/conversations').then((answer) => answer.status)") == 200
    tab.page.get_by_test_id("search").fill("nothing like it")
    expect(tab.page.get_by_text("Nothing was found.")).to_be_visible()
    tab.page.get_by_test_id("search").fill("")
    states = [impatient.row(response_id)["end_state"] for response_id in ids.values()]
    assert states == [None] * TABS
    tab.stop.click()
    tab.ends("cancelled")
    stopped = tab.path

    first = next(iter(ids))
    tab.page.locator(f"a[href='{first}']").click()
    shown = len(tab.text)
    tab.writes(shown + 50)
    tab.page.locator(f"a[href='{stopped}']").click()
    streams.become(0, tab.page)
    with closing(impatient.page("ann")) as phone:
        for response_id in ids.values():
            phone.post(f"/api/responses/{response_id}/cancel")
    for path, response_id in ids.items():
        row = impatient.row(response_id)
        assert row["end_state"] == "cancelled"
        if path != stopped:
            tab.page.locator(f"a[href='{path}']").click()
            expect(tab.markdown).to_have_text(row["output_text"].strip())
            eventually(lambda: impatient.row(response_id)["delivered_tokens"] == row["sent_tokens"])  # noqa: B023
    assert [method for method, path in tab.watch.sent if path.endswith("/messages")] == ["POST"] * TABS


def test_a_tab_that_is_hidden_beyond_the_grace_has_the_whole_answer_when_somebody_looks(impatient, offered, counting):
    tab, _ = counting
    made_later(impatient, offered, tab)
    hide(tab, False)
    offered.go_on()
    is_whole(impatient, tab)


def test_a_tab_that_stays_hidden_has_the_whole_answer_at_its_end_and_is_marked(impatient, offered, counting):
    tab, streams = counting
    offered.go_on()
    is_whole(impatient, tab)
    expect(tab.page).to_have_title(re.compile("^● "))
    streams.become(0, tab.page)


def test_a_hidden_tab_that_is_closed_frees_the_engine(impatient, offered, counting):
    tab, _ = counting
    response_id = tab.response_id
    made_later(impatient, offered, tab)
    tab.page.close()
    eventually(lambda: impatient.row(response_id)["end_state"])
    row = impatient.row(response_id)
    assert (row["end_state"], row["end_reason"]) == ("abandoned", "disconnected")
    assert row["delivered_tokens"] < LATER // 2 < row["generated_tokens"]


def test_a_hidden_tab_whose_socket_is_cut_reads_by_a_stream_until_it_has_another(impatient, offered, counting, wire):
    tab, streams = counting
    before = tab.watch.sent.count(("GET", f"/api/responses/{tab.response_id}/stream"))
    wire.cut()
    eventually(lambda: tab.watch.sent.count(("GET", f"/api/responses/{tab.response_id}/stream")) > before)
    streams.become(0, tab.page)
    offered.go_on()
    is_whole(impatient, tab)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_hidden_tab_survives_the_end_of_the_server(impatient, offered, counting, how):
    tab, _ = counting
    offered.middle.open()
    response_id = tab.response_id
    if how == signal.SIGKILL:
        impatient.kill()
    else:
        impatient.web.end(how)
    # No shorter than the page's back-off, which is chance.
    impatient.write("UPDATE streaming_response SET policy = ? WHERE id = ?", PATIENT, response_id)
    impatient.start()
    offered.go_on()
    is_whole(impatient, tab, epoch=2)


def test_a_hidden_tab_that_comes_out_of_the_browsers_cache_of_pages_reads_on(impatient, offered, counting):
    """It was left, so its socket is closed and its answer is waited for no longer than the grace."""
    tab, _ = counting
    tab.page.evaluate(
        """() => {
          for (const type of ['pagehide', 'pageshow'])
            dispatchEvent(new PageTransitionEvent(type, { persisted: true }));
        }"""
    )
    hide(tab, False)
    offered.go_on()
    is_whole(impatient, tab)
