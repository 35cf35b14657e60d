"""The core of the page in Firefox: text in steps, Stop, a reload, a kill, leaving and coming back, a narrow window.

Costs about 25 s. All of this folder can be run in it: ``pytest tests/browser --browser firefox``; what then fails is
Playwright's to learn (colours, touch, downloads, permissions), as docs/page.md tells.
"""

import pytest
from playwright.sync_api import expect

from tests.browser.test_access import SIDEWAYS
from tests.e2e.reading import eventually, until_offered
from tests.gates import Gate

COUNTED = [f"w{number}" for number in range(120)]
WHOLE = " ".join(COUNTED)
PLAYED = {"outputs": [{"text": f"{word} "} for word in COUNTED], "delay_s": 0.02}
#: Firefox tells of a request or a socket that was lost with the server.
LOST = "can’t establish a connection|was interrupted while the page was loading"
#: Where the newest answer is, frame by frame.
PLACES = """
() => new Promise((done) => {
  const places = [];
  const answer = [...document.querySelectorAll('[data-testid=message-assistant]')].at(-1);
  const look = () => {
    const { top, width, height } = answer.getBoundingClientRect();
    places.push([top, width, height].join(' '));
    if (places.length < 20) requestAnimationFrame(look);
    else done(places);
  };
  requestAnimationFrame(look);
})
"""


@pytest.fixture(scope="module")
def browser(playwright, firefox_options):
    """In the place of the plugin's: what follows is done in a Firefox."""
    firefox = playwright.firefox.launch(**firefox_options)
    yield firefox
    firefox.close()


@pytest.fixture(scope="module")
def end(site):
    """Before the last word of that model; closed until somebody was killed amid its answer."""
    return Gate(site.data_dir)


@pytest.fixture(scope="module")
def counting(site, person, end):
    """A model whose script stands in its engine's row, and so survives the process that was asked."""
    *words, last = PLAYED["outputs"]
    site.scripted("tests-counting-in-firefox", script={**PLAYED, "outputs": [*words, end.step, last]})
    until_offered(person("bea"), "tests-counting-in-firefox")
    return "tests-counting-in-firefox"


def is_whole(site, chat):
    """The page shows what the row and the log hold, and never showed anything else on the way."""
    assert chat.text == WHOLE
    assert [paint["text"] for paint in chat.probe("paints") if not WHOLE.startswith(paint["text"].rstrip())] == []
    assert site.log_text(chat.response_id) == WHOLE + " "
    return site.row(chat.response_id)


def test_text_appears_in_steps_and_escape_stops_it(site, chat):
    assert "Firefox/" in chat.page.evaluate("navigator.userAgent")
    chat.play(**PLAYED)
    chat.ends()
    is_whole(site, chat)
    assert len(chat.probe("paints")) >= 5
    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    chat.writes(20)
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    row = site.row(chat.response_id)
    expect(chat.newest.get_by_test_id("end-mark")).to_have_text(f"Stopped after {row['generated_tokens']} tokens")
    expect(chat.composer).to_be_focused()


def test_a_reload_and_a_page_that_was_left_go_on_with_the_same_answer(site, chat):
    chat.play(**PLAYED)
    chat.writes(60)
    chat.reload()
    chat.writes(60)
    chat.page.goto("about:blank")
    chat.page.go_back()
    chat.ends()
    assert is_whole(site, chat)["epoch"] == 1


def test_after_kill_9_the_same_answer_is_completed(site, chat, counting, end):
    chat.watch.allow(LOST)
    chat.choose(counting)
    chat.ask("Count for me")
    chat.writes(60)
    site.kill()
    expect(chat.status).to_contain_text("Reconnecting")
    site.start()
    end.open()
    chat.ends()
    row = is_whole(site, chat)
    assert (row["end_state"], row["epoch"]) == ("completed", 2)


def test_beside_a_scroll_bar_in_a_narrow_window_nothing_trembles(open_chat):
    """A question that has one line more beside a scroll bar than without one once asked for it and not, by turns."""
    chat = open_chat(viewport={"width": 390, "height": 800})
    chat.play(outputs=[{"text": "keeper " * 32}])
    chat.ends()
    eventually(lambda: len(set(chat.page.evaluate(PLACES))) == 1)
    assert chat.page.evaluate(SIDEWAYS) == []
