"""A shared link in a browser of nobody: what it shows, that it runs nothing, and the page on paper."""

import re

from playwright.sync_api import expect

from tests.browser.judge import found_in_both

TEXT = "## Lights\n\n```python\nprint(49)\n```\n\n<img src=x onerror=window.__xss=1> ![a](https://evil.example/?q=1)\n"


def test_a_link_is_made_read_by_anybody_and_revoked(site, open_chat, watched):
    chat = open_chat("shara")
    page = chat.page
    chat.play(outputs=[{"text": TEXT}])
    chat.ends()
    page.get_by_test_id("conversation-menu").click()
    page.get_by_test_id("share").click()
    window = page.get_by_test_id("share-dialog")
    window.get_by_test_id("create-share").click()
    link = window.get_by_test_id("made-link").inner_text()
    conversation_id = chat.conversation_id
    assert found_in_both(page) == []

    context, watch = watched(color_scheme="light")
    reader = context.new_page()
    watch.allow("status of 404")
    reader.goto(link)
    expect(reader.locator(".markdown h4, .markdown .md-h2").first).to_have_text("Lights")
    expect(reader.locator(".markdown a")).to_have_attribute("data-host", "evil.example")
    expect(reader).to_have_title(re.compile("script"))
    assert reader.evaluate("window.__xss") is None
    assert context.cookies() == []
    assert found_in_both(reader) == []
    assert {path for method, path in watch.sent if method != "GET"} == set()
    assert not any(path.startswith("/api/") for _, path in watch.sent)

    reader.emulate_media(media="print", color_scheme="dark")
    assert reader.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("conversation-menu")).to_be_focused()
    page.emulate_media(media="print")
    for hidden in ("sidebar", "composer", "options"):
        expect(page.get_by_test_id(hidden)).to_be_hidden()
    expect(chat.markdown).to_be_visible()
    page.emulate_media(media="screen")

    page.get_by_test_id("conversation-menu").click()
    page.get_by_test_id("share").click()
    window.get_by_test_id("revoke-share").click()
    expect(window).to_contain_text("There is no link to this conversation.")
    assert link not in page.content()
    assert reader.goto(link).status == 404
    assert site.rows("SELECT COUNT(*) FROM streaming_share WHERE conversation_id = ?", conversation_id) == [(1,)]
