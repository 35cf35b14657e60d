"""axe finds nothing against WCAG 2.2 AA, wherever somebody may be on the page. It judges what a machine can judge."""

import re

from playwright.sync_api import expect

from tests.browser.judge import found, found_in_both

CONTENT = """\
# Lights

| Lighthouse | Height |
|:--|--:|
| Fastnet | 49 m |

```python
def far(light_m): return 2.08 * light_m ** 0.5
```

The root $\\sqrt{h}$ decides, see [the table](https://lights.example/) and ![a chart](https://lights.example/c.png).

- [x] measured
- [ ] painted
"""
PIECES = [{"text": "<think>Is it far? Let me see.</think>"}, {"text": CONTENT}]


def test_axe_finds_nothing_anywhere_on_the_page(open_chat, person):
    client = person("axel")
    for row in client.get("/api/conversations").json()["data"]:
        client.delete(f"/api/conversations/{row['id']}")
    chat = open_chat("axel", color_scheme="light")
    page = chat.page
    faults = {"empty": found(page)}
    chat.play(outputs=PIECES)
    chat.ends()
    expect(page.locator(".hljs-keyword").first).to_be_visible()
    expect(page.locator("math").first).to_be_visible()
    faults["content"] = found_in_both(page)
    for name, opener, shown in (("settings", "settings", "settings-dialog"), ("options", "options", "options-dialog")):
        page.get_by_test_id(opener).click()
        expect(page.get_by_test_id(shown)).to_be_visible()
        faults[name] = found(page)
        page.keyboard.press("Escape")
    page.get_by_test_id("conversation-menu").click()
    faults["menu"] = found(page)
    page.keyboard.press("Escape")
    page.get_by_test_id("search").fill("Fastnet")
    expect(page.get_by_test_id("hit").first).to_be_visible()
    faults["search"] = found(page)
    page.get_by_test_id("search").fill("")
    chat.items.first.hover()
    chat.items.first.get_by_test_id("delete").click()
    page.get_by_test_id("undo-notice").hover()  # it stays while somebody is at it
    faults["undo"] = found_in_both(page)
    page.get_by_test_id("undo").click()
    chat.play(outputs=[{"text": "half "}, {"text": "an answer"}], fault={"kind": "error", "after": 1})
    chat.ends("errored")
    faults["error"] = found_in_both(page)
    page.set_viewport_size({"width": 390, "height": 800})
    faults["narrow"] = found(page)
    page.get_by_test_id("open-sidebar").click()
    expect(page.get_by_test_id("sidebar")).to_be_in_viewport(ratio=0.99)
    faults["drawer"] = found(page)
    assert {place: faults for place, faults in faults.items() if faults} == {}


def test_axe_finds_nothing_on_the_pages_without_the_front_end(site, watched):
    context, watch = watched(color_scheme="light")
    watch.allow(re.escape("status of 4"))
    page = context.new_page()
    for path in ("/login/", "/login/used", "/password-reset/", "/password-reset/sent/", "/nothing-here"):
        page.goto(site.url + path)
        assert found_in_both(page) == []
