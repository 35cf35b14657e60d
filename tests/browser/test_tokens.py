"""CSRF tokens that are not those of now: the page asks for another and once more, and nobody loses what was written."""

import re

import pytest
from playwright.sync_api import expect

STALE = "status of 403"
AT_ONCE = """cookie => {
  const options = { capture: true, once: true };
  for (const act of ['keydown', 'click']) addEventListener(act, () => (document.cookie = cookie), options);
}"""


def sent(chat, path):
    """How often the page asked so, by the last part of the path."""
    return sum(method == "POST" and sent.rsplit("/", 1)[-1] == path for method, sent in chat.watch.sent)


def with_the_next_act(chat, cookie):
    """In the same breath the page asks: any other reply, as to its list, brings a good cookie where one is spoilt."""
    chat.page.evaluate(AT_ONCE, cookie)


def lose(chat):
    with_the_next_act(chat, "csrftoken=; path=/; max-age=0")


def spoil(chat):
    with_the_next_act(chat, "csrftoken=no token; path=/")


def forget(chat):
    """The page's message has one that was changed on its way: as if another tab had signed in between."""
    chat.page.route(
        "**/messages",
        lambda route: route.continue_(headers={**route.request.headers, "x-csrftoken": "f" * 32}),
        times=1,
    )


@pytest.mark.parametrize("change", [lose, spoil, forget])
def test_a_token_that_is_not_taken_is_asked_for_anew_and_the_message_goes_out_once(site, open_chat, change):
    chat = open_chat("tokens")
    chat.watch.allow(STALE)
    chat.ask("before")
    chat.ends()
    shells = chat.watch.sent.count(("GET", "/"))
    change(chat)
    chat.ask("a long message")
    chat.composer.press_sequentially("the next draft")
    chat.ends()
    expect(chat.composer).to_have_value("the next draft")
    assert chat.watch.sent.count(("GET", "/")) == shells + 1
    assert sent(chat, "messages") == 3
    messages = "SELECT COUNT(*) FROM streaming_message WHERE conversation_id = ? AND role = 'user'"
    assert site.rows(messages, chat.conversation_id) == [(2,)]
    chat.ask("and after")
    chat.ends()
    assert sent(chat, "messages") == 4


def test_stop_works_with_a_token_that_is_not_taken(open_chat):
    chat = open_chat("tokens")
    chat.watch.allow(STALE)
    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    chat.writes(10)
    lose(chat)
    chat.stop.click()
    chat.ends("cancelled")
    assert sent(chat, "cancel") == 2


def test_who_signs_in_anew_in_another_tab_goes_on_in_the_first_and_can_sign_out_there(site, open_chat):
    chat = open_chat("tokens-anew")
    chat.ask("before")
    chat.ends()
    cookies = chat.page.evaluate("document.cookie")
    chat.composer.fill("a draft")
    other = chat.page.context.new_page()
    other.goto(site.url + site.manage("login_link", "tokens-anew"))
    other.wait_for_function("() => window.__sockets?.some((socket) => socket.greeted)")
    assert chat.page.evaluate("document.cookie") != cookies
    expect(chat.composer).to_have_value("a draft")
    chat.composer.press("Enter")
    expect(chat.questions).to_have_count(2)
    chat.ends()
    assert sent(chat, "messages") == 2
    chat.watch.allow("status of 401|WebSocket connection")
    chat.page.get_by_test_id("sign-out").click()
    for page in (chat.page, other):
        expect(page).to_have_url(re.compile("/login/"))
