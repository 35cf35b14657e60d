"""Owns the pictures in docs/screenshots, of a site with made-up people: `python -m tests.browser.screenshots`."""

import json
import os
import re
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.child import ROOT
from tests.e2e.reading import chat, eventually, read, script
from tests.e2e.site import Site

FOLDER = ROOT / "docs" / "screenshots"
MODELS = Path(os.environ.get("MODEL_DIR") or ROOT / "var" / "models")
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
MAX_BYTES = 300_000
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
QUESTION = "How far can a lighthouse be seen?"
EARLIER = (
    "Plan a weekend by the lake",
    "Why is the sky blue?",
    "Translate “good morning” into Hindi",
    "Compare tea and coffee in a table",
    "A name for my sailing boat",
)
ANSWER = """\
The **horizon** decides: light travels straight while the Earth curves away. With both heights in metres, \
the distance in nautical miles is about

```python
from math import sqrt

def visible_range(light_m: float, eye_m: float) -> float:
    \"\"\"Geographic range of a light, in nautical miles.\"\"\"
    return 2.08 * (sqrt(light_m) + sqrt(eye_m))
```

| Lighthouse | Height | Seen from 4 m above the sea |
|:--|--:|--:|
| Lindesnes, Norway | 50 m | 18.9 nm |
| Fastnet Rock, Ireland | 49 m | 18.7 nm |
| Cape Hatteras, USA | 63 m | 20.7 nm |

In *haze* the **luminous** range is what counts, and that depends on the lamp.
"""

CALLS = """\
I will work it out, and look whether we spoke of it.
<tool_call>
{"name": "calculate", "arguments": {"expression": "2.08 * (7 + 2)"}}
</tool_call>
<tool_call>
{"name": "search_conversations", "arguments": {"query": "Fastnet"}}
</tool_call>
"""
SUMMED_UP = (
    "From a deck 4 m above the sea Fastnet Rock is seen **18.7 nautical miles** away, as we had it in the table."
)


def main() -> None:
    """Make every picture anew."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="screenshots-") as folder, sync_playwright() as playwright:
        site = Site(Path(folder), MODELS)
        prepare(site)
        try:
            with closing(playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)) as browser:
                talk(site)
                take_chats(site, browser)
                take_tools(site, browser)
                take_admin(site, browser)
        finally:
            site.stop()
    for picture in sorted(FOLDER.glob("*.png")):
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size // 1024} KB")
        assert picture.stat().st_size < MAX_BYTES


def prepare(site: Site) -> None:
    """A site with one engine that always gives the answer of the pictures, in the demo model's tokens."""
    site.prepare()
    pieces = [{"text": piece} for piece in re.findall(r"\s*\S+|\s+$", ANSWER)]
    options = json.dumps({"script": {"outputs": pieces, "delay_s": 0.03, "first_delay_s": 0.2}})
    site.manage(
        "add_engine", "--kind", "scripted", "--model", "demo", "--name", "gpu-1", "--slots", "16",
        "--context", "8192", "--options", options, "--tokenizer", str(site.model_dir / "smollm2"),
    )  # fmt: skip
    site.start()


def talk(site: Site) -> None:
    """Answers of every kind, by several people, over the page and the API."""
    with closing(site.page("reader")) as reader:
        for question in reversed(EARLIER):
            conversation = reader.post("/api/conversations", json={}).json()["id"]
            read(reader, "POST", f"/api/conversations/{conversation}/messages", json={"text": question})
    endless = script(outputs=[{"text": "and so on "}], repeat=0, delay_s=0.02)
    for name in ("api-batch", "api-search"):
        with site.api(site.manage("create_api_key", name)) as api:
            api.post("/v1/chat/completions", json=body("Hello", max_tokens=40))
            chat(api, "Tell me more", model="demo")
            chat(api, endless, model="demo", until=lambda stream: len(stream.seqs) > 30)
            chat(api, script(outputs=[{"text": "Well, "}], repeat=9, fault={"kind": "error", "after": 6}), model="demo")
            api.post("/v1/chat/completions", json=body("Hello", temperature=9))
            stop_one(site, api, endless)
    eventually(lambda: site.rows("SELECT COUNT(*) FROM streaming_response WHERE end_state IS NULL") == [(0,)])


def body(content: str, **parameters) -> dict:
    return {"model": "demo", "messages": [{"role": "user", "content": content}], **parameters}


def stop_one(site: Site, api, question: str) -> None:
    stopped = []

    def until(stream) -> bool:
        if len(stream.seqs) > 20 and not stopped:
            stopped.append(api.post(f"/v1/responses/{stream.response_id}/cancel").json())
        return False

    chat(api, question, model="demo", until=until)


def take_chats(site: Site, browser: Browser) -> None:
    """The same conversation in light, in dark and on a phone."""
    with closing(signed_in(site, browser, "reader", viewport=DESKTOP, color_scheme="light")) as context:
        page = context.new_page()
        page.goto(site.url)
        expect(page.get_by_test_id("conversation-item")).to_have_count(len(EARLIER))
        take(page, "chat-empty")
        page.get_by_test_id("composer").fill(QUESTION)
        page.get_by_test_id("composer").press("Enter")
        expect(page.get_by_test_id("message-assistant")).to_have_attribute(
            "data-end-state", "completed", timeout=30_000
        )
        finished = page.url
        take_finished(page, "chat")
    looks = {
        "chat-dark": {"viewport": DESKTOP, "color_scheme": "dark"},
        "chat-phone": {"viewport": PHONE, "color_scheme": "light", "is_mobile": True, "has_touch": True},
    }
    for name, look in looks.items():
        with closing(signed_in(site, browser, "reader", **look)) as context:
            page = context.new_page()
            page.goto(finished)
            take_finished(page, name)


def take_tools(site: Site, browser: Browser) -> None:
    """An answer that calls two tools, by a model that marks its calls."""
    first, last = ([{"text": piece} for piece in re.findall(r"\s*\S+|\s+$", text)] for text in (CALLS, SUMMED_UP))
    played = {"outputs": first, "finish_reason": "tool_calls", "delay_s": 0.01, "rounds": [{"outputs": last}]}
    site.scripted("demo-tools", script=played, markers="hermes")
    with closing(signed_in(site, browser, "reader", viewport=DESKTOP, color_scheme="light")) as context:
        page = context.new_page()
        page.goto(site.url)
        page.get_by_test_id("model").select_option("demo-tools")
        page.get_by_test_id("options").click()
        for name in ("calculate", "search_conversations"):
            page.get_by_test_id(f"run-{name}").check()
        page.get_by_test_id("save-options").click()
        page.get_by_test_id("composer").fill("How far is the light of Fastnet Rock seen from our deck?")
        page.get_by_test_id("composer").press("Enter")
        ended = page.locator("[data-testid=message-assistant][data-end-state=completed]")
        expect(ended.get_by_test_id("tool-result")).to_have_count(2, timeout=30_000)
        take(page, "chat-tools")


def take_finished(page: Page, name: str) -> None:
    """The answer's code must have its colours, which come in a chunk of their own."""
    expect(page.locator(".hljs-keyword").first).to_be_visible()
    expect(page.locator(".item-running")).to_have_count(0)
    take(page, name)


def take_admin(site: Site, browser: Browser) -> None:
    """What staff sees: the list, figures, one answer's course, what runs. The past is made up."""
    site.manage("seed_demo", "--responses", "20000", "--yes")
    look = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"}
    with closing(signed_in(site, browser, "root", "--create-superuser", **look)) as context:
        page = context.new_page()
        page.goto(f"{site.url}/admin/usage/")
        page.locator("#toggle-nav-sidebar").click()
        expect(page.locator("#nav-sidebar")).not_to_be_visible()
        page.evaluate("scrollTo(0, 0)")
        take(page, "admin-usage")
        page.goto(f"{site.url}/admin/streaming/response/?end_state=cancelled")
        take(page, "admin-responses")
        (stopped,) = site.rows(
            "SELECT id FROM streaming_response WHERE end_state = 'cancelled' AND id IN (SELECT response_id FROM"
            " streaming_responseevent) AND generated_tokens BETWEEN 150 AND 400 ORDER BY created_at DESC LIMIT 1"
        )[0]
        page.goto(f"{site.url}/admin/streaming/response/{stopped}/change/")
        take(page, "admin-timeline")
        take_live(site, page)


def take_live(site: Site, page: Page) -> None:
    """Several answers at once, which nobody waits for; the site's end ends them."""
    endless = script(outputs=[{"text": "and so on "}], repeat=0, delay_s=0.03)
    with ExitStack() as running:
        for name, count in (("api-search", 3), ("api-batch", 2), ("reader", 2)):
            api = running.enter_context(site.api(site.manage("create_api_key", name)))
            for _ in range(count):
                chat(api, endless, model="demo", until=lambda stream: len(stream.seqs) > 5,
                     headers={"X-Disconnect-Policy": "background"})  # fmt: skip
        page.goto(f"{site.url}/admin/live/")
        expect(page.locator("#live-rows tr")).to_have_count(7)
        expect(page.locator("#live-rows tr td:nth-child(7)").first).not_to_be_empty()
        take(page, "admin-live")


def signed_in(site: Site, browser: Browser, name: str, *options: str, **look) -> BrowserContext:
    context = browser.new_context(**look)
    page = context.new_page()
    page.goto(site.url + site.manage("login_link", name, *options))
    page.close()
    return context


def take(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.evaluate("document.fonts.ready")
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled", caret="hide")


if __name__ == "__main__":
    main()
