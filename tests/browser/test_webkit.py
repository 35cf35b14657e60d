"""The core of the page in WebKit: text in steps, Stop, a reload, a cut, the cache of pages, scrolling upwards.

Costs about 15 s.
"""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser import webkit
from tests.browser.test_places import MANY

# Selenium's own, for the day it is changed.
pytestmark = pytest.mark.filterwarnings("ignore:setting remote_server_addr:DeprecationWarning")
COUNTED = [f"w{number}" for number in range(120)]
WHOLE = " ".join(COUNTED)
PLAYED = {"outputs": [{"text": f"{word} "} for word in COUNTED], "delay_s": 0.02}
#: How far what is in sight moves when the log is scrolled up by 200 px, twenty times.
MOVES = """
const done = arguments[0];
const log = document.querySelector('[data-testid=log]');
const frames = () => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
(async () => {
  const moves = [];
  log.dispatchEvent(new WheelEvent('wheel'));
  while (moves.length < 20) {
    const middle = log.getBoundingClientRect().top + 250;
    const seen = [...document.querySelectorAll('.message')].find((one) => one.getBoundingClientRect().bottom > middle);
    const before = seen.getBoundingClientRect().top;
    log.scrollTop -= 200;
    await frames();
    moves.push(Math.round(seen.getBoundingClientRect().top - before));
  }
  done(moves);
})();
"""


@pytest.fixture(scope="module")
def browser(built_page):
    if missing := webkit.missing():
        pytest.skip(f"no {' and no '.join(missing)}; install webkit2gtk-driver and xvfb")
    with webkit.display() as display_name, webkit.opened(display_name) as browser:
        yield browser


@pytest.fixture
def chat(browser, site, person):
    chat = webkit.WebKitChat(browser, site.url, person("bea").cookies["sessionid"])
    yield chat
    assert chat.js("__complaints") == []


def is_whole(site, chat):
    """The page shows what the log holds, and never showed anything else on the way."""
    assert chat.text == WHOLE
    assert [paint for paint in chat.js("__probe.paints") if not WHOLE.startswith(paint["text"].rstrip())] == []
    assert site.log_text(chat.response_id) == WHOLE + " "
    return site.row(chat.response_id)


def test_text_appears_in_steps_and_escape_stops_it(site, chat):
    chat.play(**PLAYED)
    chat.ends()
    is_whole(site, chat)
    assert len(chat.js("__probe.paints")) >= 5
    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    chat.writes(20)
    chat.press(Keys.ESCAPE)
    chat.ends("cancelled")
    told = f"Stopped after {site.row(chat.response_id)['generated_tokens']} tokens"
    chat.until("document.querySelector('[data-testid=status-text]').textContent === arguments[0]", told)


def test_a_reload_and_a_page_out_of_the_cache_of_pages_go_on_with_the_same_answer(site, chat):
    chat.play(**PLAYED)
    chat.writes(60)
    chat.reload()
    chat.writes(60)
    chat.browser.execute_script("addEventListener('pageshow', (event) => (window.__kept = event.persisted))")
    chat.browser.get("about:blank")
    chat.browser.back()
    chat.until("window.__kept === true")
    chat.ends()
    assert is_whole(site, chat)["epoch"] == 1


def test_a_cut_connection_is_opened_again_and_nothing_is_doubled(site, browser, person, wire):
    chat = webkit.WebKitChat(browser, wire.url, person("bea").cookies["sessionid"])
    chat.play(**PLAYED)
    chat.writes(60)
    wire.cut()
    chat.ends()
    assert is_whole(site, chat)["epoch"] == 1
    assert chat.js("__complaints") == []


def test_what_is_in_sight_moves_as_far_as_one_scrolls_up(site, chat):
    """Nothing holds it here when a message above comes to its height only as it is scrolled to."""
    chat.play(outputs=[{"text": "seed"}])
    chat.ends()
    conversation_id = chat.js("location.pathname.split('/').at(-1)")
    site.manage("shell", "-v0", "-c", MANY.format(id=conversation_id))
    chat.reload()
    chat.until("document.querySelectorAll('[data-testid=message-user]').length > 100")
    assert chat.browser.execute_async_script(MOVES) == [200] * 20
