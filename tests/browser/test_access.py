"""The page for everybody: narrow screens, dark colours, the keyboard alone, screen readers."""

import pytest
from playwright.sync_api import expect

from tests.browser.held import Held

WIDE = """\
# A-heading-that-is-one-very-long-word-without-any-place-to-break-it-at-all-really-none

See https://lighthouses.example/a/very/long/address/that/does/not/fit/into/any/narrow/window/at/all/index.html

| one | two | three | four | five | six | seven | eight |
|---|---|---|---|---|---|---|---|
| lighthouse | harbour | foghorn | keeper | staircase | lantern | fresnel | logbook |

```python
def a_function_with_a_very_long_name(first_argument, second_argument, third_argument, fourth_argument): return None
```

> - quoted `inline_code_that_is_long_enough_to_be_wider_than_the_screen_of_a_small_phone` text
"""
SIDEWAYS = """
() => [...document.querySelectorAll('html, body, .page, .main, .log, .dock, .composer')]
  .filter((node) => node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== 'visible'
    || node.getBoundingClientRect().right > innerWidth + 1)
  .map((node) => node.className || node.nodeName)
"""
#: The lowest contrast of text to its background, over every visible text of the page, with the text that has it.
CONTRAST = """
() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, below) => top.slice(0, 3).map((part, i) => (part * top[3] + below[i] * (255 - top[3])) / 255);
  const light = (colour) => {
    const linear = (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  function background(node) {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.unshift(rgba(getComputedStyle(at).backgroundColor));
    return layers.reduce((below, top) => over(top, below), [255, 255, 255]);
  }
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (node.closest('.off-screen, script, style, noscript, :disabled')) continue;
    const behind = background(node);
    const [a, b] = [light(over(rgba(getComputedStyle(node).color), behind)), light(behind)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${node.className || node.nodeName} ${text.data.slice(0, 30)}`);
  }
  return low;
}
"""
#: What has the focus, and whether that is to be seen on it or on what is around it.
FOCUS = """
() => {
  const node = document.activeElement;
  const seen = [node, node.parentElement].some((at) => getComputedStyle(at).outlineStyle !== 'none');
  return [node.dataset.testid ?? node.className, seen || node === document.body];
}
"""


@pytest.mark.parametrize("width", [320, 390])
def test_a_narrow_screen_never_scrolls_sideways(open_chat, width):
    chat = open_chat(viewport={"width": width, "height": 700}, has_touch=True, is_mobile=True)
    assert chat.page.evaluate(SIDEWAYS) == []
    chat.play(outputs=[{"text": WIDE[start : start + 40]} for start in range(0, len(WIDE), 40)], delay_s=0.02)
    chat.writes(20)
    assert chat.page.evaluate(SIDEWAYS) == []
    chat.ends()
    assert chat.page.evaluate(SIDEWAYS) == []
    chat.composer.fill("w" * 400)
    assert chat.page.evaluate(SIDEWAYS) == []
    for button in ("send", "open-sidebar"):
        box = chat.page.get_by_test_id(button).bounding_box()
        assert min(box["width"], box["height"]) >= 40
    chat.page.get_by_test_id("open-sidebar").tap()
    expect(chat.page.get_by_test_id("sidebar")).to_be_in_viewport()
    expect(chat.page.get_by_role("button", name="Close conversation list")).to_be_focused()
    assert chat.page.evaluate(SIDEWAYS) == []
    chat.page.keyboard.press("Escape")
    expect(chat.page.get_by_test_id("sidebar")).not_to_be_in_viewport()
    expect(chat.page.get_by_test_id("open-sidebar")).to_be_focused()
    assert float(chat.composer.evaluate("box => parseFloat(getComputedStyle(box).fontSize)")) >= 16


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_text_stands_out_from_its_background(open_chat, colours):
    chat = open_chat(color_scheme=colours)
    assert chat.page.evaluate(CONTRAST) == []
    chat.play(outputs=[{"text": WIDE}, {"bytes": ""}], fault={"kind": "error", "after": 1})
    chat.ends("errored")
    assert chat.page.evaluate(CONTRAST) == []
    dark = chat.page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (colours == "dark")


def test_the_colours_can_be_chosen_and_are_kept(chat):
    background = "getComputedStyle(document.body).backgroundColor"
    light = chat.page.evaluate(background)
    chat.page.get_by_text("Dark", exact=True).click()
    dark = chat.page.evaluate(background)
    assert dark != light
    chat.reload()
    assert chat.page.evaluate(background) == dark


def test_colours_that_were_chosen_are_there_before_the_page_is(open_chat):
    chat = open_chat(color_scheme="light")
    chat.page.get_by_text("Dark", exact=True).click()
    script = Held(chat.page, "**/assets/page-*.js")
    chat.page.reload(wait_until="commit")
    script.came()
    expect(chat.page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(chat.composer).to_have_count(0)
    script.let_go()
    expect(chat.composer).to_be_visible()
    expect(chat.page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_keyboard_alone_sends_stops_and_walks_through_the_page(chat):
    keyboard = chat.page.keyboard
    chat.composer.press("Control+a")
    chat.play(outputs=[{"text": "first answer"}])
    chat.ends()
    expect(chat.composer).to_be_focused()
    keyboard.type("two")
    keyboard.press("Shift+Enter")
    keyboard.type("lines")
    expect(chat.composer).to_have_value("two\nlines")
    keyboard.press("Enter")
    expect(chat.questions.last).to_have_text("two\nlines")
    chat.ends()

    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    chat.writes(10)
    keyboard.press("Tab")
    expect(chat.stop).to_be_focused()
    keyboard.press("Enter")
    chat.ends("cancelled")
    expect(chat.composer).to_be_focused()

    wanted = {"log", "new-chat", "copy-answer", "regenerate", "rename", "delete", "skip-link", "model"}
    reached = set()
    for _ in range(500):  # each conversation that other tests have left is three steps
        keyboard.press("Shift+Tab")
        name, seen = chat.page.evaluate(FOCUS)
        reached.add(name)
        assert seen, name
        if wanted <= reached:
            break
    assert wanted <= reached


def test_a_screen_reader_hears_that_an_answer_began_and_ended_but_not_its_text(chat):
    chat.play(outputs=[{"text": "tick "}], repeat=40, delay_s=0.02)
    chat.ends()
    assert chat.probe("busy") == ["true", "false"]
    assert chat.probe("said") == ["Answering", "Answer ready"]
    expect(chat.announcer).to_have_attribute("role", "status")
    expect(chat.log).to_have_attribute("aria-live", "off")
    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    chat.writes(10)
    expect(chat.log).to_have_attribute("aria-busy", "true")
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    assert chat.probe("said")[-1].startswith("Stopped after")
    expect(chat.page.get_by_role("heading", name="Assistant said")).to_have_count(2)


def test_reading_upwards_is_not_disturbed_by_new_text(chat):
    chat.play(outputs=[{"text": f"line {i}\n\n"} for i in range(300)], repeat=0, delay_s=0.02)
    chat.writes(900)
    chat.log.hover()
    chat.page.mouse.wheel(0, -200)
    expect(chat.page.get_by_test_id("jump")).to_be_visible()
    top = chat.log.evaluate("log => log.scrollTop")
    chat.writes(1500)
    assert chat.log.evaluate("log => log.scrollTop") == top
    chat.page.get_by_test_id("jump").click()
    expect(chat.page.get_by_test_id("jump")).to_have_count(0)
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    chat.painted()
    assert chat.log.evaluate("log => log.scrollHeight - log.clientHeight - log.scrollTop") < 25
