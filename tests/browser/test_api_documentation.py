"""The page that shows the API's document: drawn from this site's own files, within its policy."""

from playwright.sync_api import expect


def test_the_document_is_shown_without_anything_from_elsewhere(site, page):
    asked, refused = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
    page.goto(f"{site.url}/v1/docs")
    expect(page.locator(".opblock-summary-path", has_text="/v1/chat/completions").first).to_be_visible()
    page.locator(".opblock-summary-control", has_text="chat/completions").first.click()
    expect(page.locator(".opblock-body").first).to_be_visible()
    assert refused == []
    assert {url.split("/")[2] for url in asked if not url.startswith("data:")} == {site.url.split("/")[2]}
