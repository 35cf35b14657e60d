"""What people expect of typing, seeing and touching: input methods, motion, forced colours, zoom, scripts. 25 s."""

import pytest
from playwright.sync_api import expect

from tests.browser.held import Held
from tests.browser.judge import found
from tests.browser.test_access import SIDEWAYS
from tests.e2e.reading import eventually

HEIGHT = "box => [box.clientHeight, box.scrollHeight]"
MOVING = "document.getAnimations().length"
#: What can be pressed, is to be seen, stands in no running text, and is smaller than a finger.
SMALL = """
() => [...document.querySelectorAll('button, select, summary, input, textarea, a.button')]
  .filter((node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
  .filter((node) => !node.closest('.markdown p, .skip-link, [inert], .off-screen'))
  .map((node) => [node.closest('label') ?? node, node])
  .map(([hit, node]) => [hit.getBoundingClientRect(), node])
  .filter(([box]) => Math.min(box.width, box.height) < 43.5)
  .map(([box, node]) => `${node.dataset.testid || node.className || node.nodeName} ${box.width} x ${box.height}`)
"""
SCRIPTS = """\
السلام عليكم، هذه منارة.

A lighthouse stands there.

- שלום עולם
- 灯台は海を照らす。

```python
print("a")
```
"""
DIRECTIONS = """
() => [...document.querySelectorAll('[data-testid=message-assistant] .markdown :is(p, li, pre)')]
  .map((node) => getComputedStyle(node).direction)
"""


def test_enter_that_ends_an_input_methods_word_sends_nothing(chat):
    ime = chat.page.context.new_cdp_session(chat.page)
    chat.composer.click()
    ime.send("Input.imeSetComposition", {"text": "とうだい", "selectionStart": 4, "selectionEnd": 4})
    chat.page.keyboard.press("Enter")
    expect(chat.questions).to_have_count(0)
    chat.composer.fill("灯台")
    chat.page.keyboard.press("Enter")
    expect(chat.questions).to_have_text(["灯台"])
    chat.ends()


@pytest.mark.parametrize("chord", ["Control+Enter", "Meta+Enter"])
def test_a_chord_sends_too(chat, chord):
    chat.composer.fill("hello")
    chat.page.keyboard.press(chord)
    expect(chat.questions).to_have_text(["hello"])
    chat.ends()


def test_the_box_grows_to_eight_lines_then_scrolls_and_shrinks_again(chat):
    heights = []
    for lines in (1, 4, 8, 30):
        chat.composer.fill("\n".join(["line"] * lines))
        heights.append(chat.composer.evaluate(HEIGHT))
    shown = [height for height, _ in heights]
    assert shown[0] < shown[1] < shown[2]
    assert shown[3] < 1.25 * shown[2]
    assert [content > height for height, content in heights] == [False, False, False, True]
    chat.composer.fill("")
    assert chat.composer.evaluate(HEIGHT)[0] == shown[0]


def test_offline_nothing_can_be_sent_the_reason_is_told_and_the_draft_is_kept(chat):
    chat.watch.allow("ERR_INTERNET_DISCONNECTED|WebSocket connection to")
    chat.composer.fill("a thought")
    chat.page.context.set_offline(True)
    expect(chat.page.get_by_test_id("not-sendable")).to_contain_text("You are offline")
    expect(chat.page.get_by_test_id("send")).to_be_disabled()
    chat.composer.press("Enter")
    expect(chat.composer).to_have_value("a thought")
    expect(chat.questions).to_have_count(0)
    chat.page.context.set_offline(False)
    expect(chat.page.get_by_test_id("not-sendable")).to_have_count(0)
    chat.composer.press("Enter")
    expect(chat.questions).to_have_text(["a thought"])
    chat.ends()


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_nothing_moves_for_who_wants_no_motion(open_chat, motion):
    chat = open_chat(reduced_motion=motion)
    chat.play(outputs=[{"gate": "never"}])
    expect(chat.newest).to_have_attribute("aria-busy", "true")
    expect(chat.newest.locator(".thinking")).to_be_visible()
    assert (chat.page.evaluate(MOVING) == 0) == (motion == "reduce")
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")


def test_with_colours_of_the_systems_own_everything_can_be_told_apart(open_chat):
    chat = open_chat(forced_colors="active")
    chat.play(outputs=[{"text": "half "}, {"text": "an answer"}], fault={"kind": "error", "after": 1})
    chat.ends("errored")
    assert found(chat.page) == []
    chat.newest.get_by_test_id("good").click()
    expect(chat.newest.get_by_test_id("good")).to_have_attribute("aria-pressed", "true")
    colour = "mark => getComputedStyle(mark.querySelector('path')).fill"
    good, bad = (chat.newest.get_by_test_id(mark).evaluate(colour) for mark in ("good", "bad"))
    assert good != bad


def test_what_can_be_touched_is_as_large_as_a_finger(open_chat):
    chat = open_chat("thumb", viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    assert "; ".join(chat.page.evaluate(SMALL)) == ""
    chat.play(outputs=[{"text": "half "}, {"text": "an answer\n\n```python\n1\n```\n"}, {"text": "x"}])
    chat.ends()
    assert "; ".join(chat.page.evaluate(SMALL)) == ""
    chat.page.get_by_test_id("open-sidebar").tap()
    expect(chat.page.get_by_test_id("sidebar")).to_be_in_viewport()
    assert "; ".join(chat.page.evaluate(SMALL)) == ""


def test_at_twice_the_size_nothing_is_cut_off(open_chat):
    chat = open_chat(viewport={"width": 640, "height": 360}, device_scale_factor=2)
    chat.play(outputs=[{"text": "word " * 200}])
    chat.ends()
    assert chat.page.evaluate(SIDEWAYS) == []
    for part in (chat.composer, chat.page.get_by_test_id("send"), chat.status):
        expect(part).to_be_in_viewport(ratio=0.99)


def test_each_block_runs_in_the_direction_of_its_script(chat):
    chat.play(outputs=[{"text": SCRIPTS[start : start + 3]} for start in range(0, len(SCRIPTS), 3)], delay_s=0.002)
    chat.ends()
    assert chat.page.evaluate(DIRECTIONS) == ["rtl", "ltr", "rtl", "ltr", "ltr"]
    chat.composer.fill("مرحبا")
    assert chat.composer.evaluate("box => box.matches(':dir(rtl)')")


def test_a_whole_conversation_is_copied(chat):
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.play(outputs=[{"text": "**bold** answer"}])
    chat.ends()
    chat.page.get_by_test_id("conversation-menu").click()
    chat.page.get_by_test_id("copy-conversation").click()
    eventually(lambda: "**bold** answer" in chat.page.evaluate("navigator.clipboard.readText()"))
    assert "script" in chat.page.evaluate("navigator.clipboard.readText()")


def test_a_skeleton_stands_for_history_that_loads_and_nothing_is_sent_before_it_is_known(chat):
    chat.play(outputs=[{"text": "an answer"}])
    skeleton = chat.page.locator(".skeleton")
    expect(skeleton).to_have_count(0)
    chat.ends()
    history = Held(chat.page, "**/api/conversations/conv_*")
    chat.page.reload()
    expect(skeleton).to_be_visible()
    expect(chat.composer).to_be_editable()
    # Sent now, it would go beside the first message: what it follows is not known yet.
    chat.composer.fill("a second question")
    chat.composer.press("Enter")
    expect(chat.composer).to_have_value("a second question")
    history.let_go()
    expect(skeleton).to_have_count(0)
    expect(chat.answers).to_have_count(1)
    chat.composer.press("Enter")
    expect(chat.answers).to_have_count(2)


def test_a_browser_that_is_too_old_says_so_instead_of_nothing(chat):
    told = chat.page.get_by_text("This browser is too old for this page")
    expect(told).to_be_hidden()
    chat.watch.allow("Failed to load resource: net::ERR_FAILED")
    chat.page.add_init_script("CSS.supports = () => false")
    chat.page.route("**/assets/page-*.js", lambda route: route.abort())  # what it cannot parse does not run either
    chat.page.reload()
    expect(told).to_be_visible()
