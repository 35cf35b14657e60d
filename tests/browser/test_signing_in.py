"""Signing in by the one-time link, and the shell of the page under its policy."""

import re

import httpx
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage

#: The moment between the end of the session and the next page, and in it somebody looks at the page once more.
SIGNED_OUT_BUT_STILL_THERE = """() => HTMLFormElement.prototype.submit = async function () {
  await fetch('/logout/', { method: 'POST', body: new FormData(this), redirect: 'manual' });
  document.dispatchEvent(new Event('visibilitychange'));
  await fetch('/login/');
  window.__signedOut = true;
}"""


def test_a_login_link_opens_the_chat_and_works_once(site, watched):
    link = site.url + site.manage("login_link", "newcomer")
    context, watch = watched()
    chat = ChatPage(context.new_page(), watch, site.url)
    chat.page.goto(link)
    expect(chat.page).to_have_url(site.url + "/")
    expect(chat.page.get_by_test_id("empty-state")).to_contain_text("newcomer")
    expect(chat.composer).to_be_focused()
    assert httpx.get(link, timeout=60).status_code == 410

    watch.allow("410")
    stranger, watch = watched()
    watch.allow("410")
    page = stranger.new_page()
    page.goto(link)
    expect(page.get_by_role("heading")).to_have_text("This link does not work any more")
    page.goto(site.url)
    expect(page).to_have_url(re.compile(r"/login/\?next=/$"))


def test_signing_out_leaves_nothing_behind(site, open_chat):
    chat = open_chat("leaver")
    chat.composer.fill("a secret draft")
    assert chat.page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('draft:')).length") == 1
    chat.page.get_by_test_id("sign-out").click()
    expect(chat.page).to_have_url(re.compile("/login/"))
    assert chat.page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('draft:')).length") == 0
    chat.page.goto(site.url)
    expect(chat.page).to_have_url(re.compile("/login/"))


def test_signing_out_asks_for_nothing_that_would_be_refused(site, open_chat):
    chat = open_chat("leaver-2")
    chat.play(outputs=[{"text": "done"}])
    chat.ends()
    doomed = chat.conversation_id
    chat.page.get_by_test_id("new-chat").click()
    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.05)
    chat.writes(10)
    item = chat.page.locator(f"[data-conversation-id='{doomed}']")
    item.hover()
    item.get_by_test_id("delete").click()

    chat.page.evaluate(SIGNED_OUT_BUT_STILL_THERE)
    chat.page.get_by_test_id("sign-out").click()
    chat.until("() => window.__signedOut")
    chat.page.goto(site.url)
    expect(chat.page).to_have_url(re.compile("/login/"))
    sent = chat.watch.sent
    after = sent[sent.index(("POST", "/logout/")) :]
    assert not [path for _, path in after if path.startswith("/api/")]
    assert ("DELETE", f"/api/conversations/{doomed}") in sent, "what was deleted is deleted before the session is over"
    assert chat.watch.complaints == []


def test_an_example_fills_the_composer_and_sends_nothing(chat):
    chat.page.get_by_test_id("example").first.click()
    expect(chat.composer).to_be_focused()
    expect(chat.composer).to_have_value(re.compile("rainbow"))
    expect(chat.questions).to_have_count(0)
    assert "POST" not in {method for method, _ in chat.watch.sent}
