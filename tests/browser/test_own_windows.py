"""What a person looks after by themselves: API keys and how much was used."""

import httpx
from playwright.sync_api import expect

from streaming.store.access import PREFIX_CHARS
from tests.browser.judge import found_in_both
from tests.e2e.reading import eventually


def models(site, key):
    return httpx.get(f"{site.url}/v1/models", headers={"Authorization": f"Bearer {key}"}, timeout=60).status_code


def test_a_key_is_made_shown_once_used_and_revoked_and_usage_is_told(site, open_chat):
    chat = open_chat("kay", color_scheme="light")
    page = chat.page
    chat.play(outputs=[{"text": "one "}, {"text": "two"}])
    chat.ends()
    page.get_by_test_id("open-keys").click()
    window = page.get_by_test_id("keys-dialog")
    expect(window).to_contain_text("You have no keys yet.")
    window.get_by_test_id("key-name").fill("<b>laptop</b>")
    window.get_by_test_id("key-lifetime").select_option("30")
    window.get_by_test_id("key-name").press("Enter")
    key = window.get_by_test_id("made-key").inner_text()
    assert models(site, key) == 200
    # A database that is busy is not waited for to note it: then the next request does.
    used = "SELECT COUNT(*) FROM streaming_apikey WHERE prefix = ? AND last_used_at IS NOT NULL"
    eventually(lambda: models(site, key) == 200 and site.rows(used, key[:PREFIX_CHARS]) == [(1,)])
    expect(window.get_by_test_id("key")).to_contain_text("<b>laptop</b>")
    assert found_in_both(page) == []
    window.get_by_test_id("close-keys").click()
    expect(page.get_by_test_id("open-keys")).to_be_focused()

    page.keyboard.press("Enter")
    expect(window.get_by_test_id("key")).to_contain_text("last used")
    assert key not in page.content()
    window.get_by_test_id("revoke-key").click()
    expect(window.get_by_test_id("key")).to_contain_text("revoked")
    assert models(site, key) == 401
    page.keyboard.press("Escape")

    page.get_by_test_id("open-usage").click()
    window = page.get_by_test_id("usage-dialog")
    expect(window.locator("tbody tr")).to_have_count(1)
    window.get_by_text("Model", exact=True).first.click()
    expect(window.locator("tbody th")).to_contain_text("scripted")
    expect(window.locator("tbody td").first).to_have_text("1")
    assert found_in_both(page) == []
    page.set_viewport_size({"width": 320, "height": 700})
    assert window.evaluate("node => node.scrollWidth <= node.clientWidth")
