"""A phone: what the keyboard leaves of the page, and the corners of its screen. Costs about 15 s."""

import pytest
from playwright.sync_api import expect

from tests.gates import stairs

PHONE = {"width": 390, "height": 844}
LINES = [{"text": f"Line {number} of an answer that is longer than the screen.\n\n"} for number in range(40)]
#: Whether the box, its button and the end of the newest text are between the edges of what is seen.
IN_SIGHT = """
height => {
  const within = (box) => box.top >= 0 && box.bottom <= height + 0.5 && box.height > 0;
  const send = document.querySelector('[data-testid=stop], [data-testid=send]');
  const last = [...document.querySelectorAll('[data-testid=markdown]')].at(-1).lastElementChild;
  const log = document.querySelector('[data-testid=log]').getBoundingClientRect();
  const end = last.getBoundingClientRect();
  return {
    composer: within(document.querySelector('.composer').getBoundingClientRect()),
    button: within(send.getBoundingClientRect()),
    end: within(end) && end.top >= log.top - 1 && end.bottom <= log.bottom + 1,
    page: document.scrollingElement.scrollHeight <= height + 0.5 || scrollY === 0,
  };
}
"""
SHOWN = "count => document.querySelectorAll('[data-testid=markdown] p').length >= count"
ALL = {"composer": True, "button": True, "end": True, "page": True}
#: Safari's way: the page keeps its height, and only what is seen of it gets smaller.
COVER = """
height => {
  Object.defineProperty(visualViewport, 'height', { get: () => height, configurable: true });
  visualViewport.dispatchEvent(new Event('resize'));
}
"""


@pytest.fixture
def phone(open_chat):
    return open_chat("phone", viewport=PHONE, has_touch=True, is_mobile=True, color_scheme="light")


def resized(phone, height):
    """Android's way, asked for by interactive-widget=resizes-content."""
    phone.page.set_viewport_size({**PHONE, "height": height})


def covered(phone, height):
    phone.page.evaluate(COVER, height)


def in_sight(phone, height):
    """After what was painted next: heights are observed."""
    phone.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return phone.page.evaluate(IN_SIGHT, height)


@pytest.mark.parametrize("keyboard", [resized, covered])
def test_the_box_and_the_end_of_the_log_stay_in_sight_when_the_keyboard_takes_half(site, phone, keyboard):
    """The answer grows between the looks, and stands still while somebody looks."""
    outputs, gates = stairs([LINES[start : start + 10] for start in range(0, 40, 10)], site.data_dir)
    phone.play(outputs=outputs, delay_s=0.01)
    heights = (PHONE["height"] // 2, PHONE["height"], PHONE["height"] // 2)
    for number, (height, gate) in enumerate(zip(heights, gates, strict=True), 1):
        phone.until(SHOWN, 10 * number)
        keyboard(phone, height)
        assert in_sight(phone, height) == ALL
        gate.open()
    phone.ends()
    assert in_sight(phone, PHONE["height"] // 2) == ALL
    phone.composer.fill("line\n" * 30)
    assert in_sight(phone, PHONE["height"] // 2)["composer"]
    expect(phone.page.locator("meta[name=viewport]")).to_have_attribute(
        "content", "width=device-width, initial-scale=1, viewport-fit=cover, interactive-widget=resizes-content"
    )


def test_who_reads_further_up_stays_there_when_the_keyboard_comes(phone):
    phone.play(outputs=LINES)
    phone.ends()
    phone.log.evaluate("log => { log.scrollTop = 200; }")
    expect(phone.page.get_by_test_id("jump")).to_be_visible()
    resized(phone, PHONE["height"] // 2)
    phone.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert phone.log.evaluate("log => log.scrollTop") == 200


def test_zooming_in_changes_no_height(phone):
    phone.page.evaluate("Object.defineProperty(visualViewport, 'scale', { get: () => 2, configurable: true })")
    covered(phone, 300)
    assert phone.page.evaluate("document.querySelector('.page').clientHeight") == PHONE["height"]


INSETS = {"top": 47, "bottom": 34, "left": 30, "right": 20}
#: Everything that can be read or pressed and is in a corner or under the bar of the phone.
HIDDEN = """
({ top, right, bottom, left }) =>
  [...document.querySelectorAll('button, a, input, select, textarea, summary, h1, p, .status, .bubble')]
    .filter((node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
    .filter((node) => !node.closest('.log, .sidebar-list, .off-screen, [inert]'))
    .map((node) => [node, node.getBoundingClientRect()])
    .filter(([, box]) => box.width > 1 && box.bottom > 0 && box.top < innerHeight)
    .filter(([, box]) => box.top < top || box.bottom > innerHeight - bottom
      || box.left < left || box.right > innerWidth - right)
    .map(([node]) => node.className || node.nodeName)
"""


@pytest.mark.parametrize("size", [PHONE, {"width": 844, "height": 390}], ids=["upright", "on its side"])
def test_nothing_is_under_the_corners_of_the_screen(phone, size):
    phone.page.set_viewport_size(size)
    devtools = phone.page.context.new_cdp_session(phone.page)
    sides = INSETS | {f"{side}Max": px for side, px in INSETS.items()}
    devtools.send("Emulation.setSafeAreaInsetsOverride", {"insets": sides})
    phone.ask("hello")
    phone.ends()
    assert phone.page.evaluate(HIDDEN, INSETS) == []
    opener = phone.page.get_by_test_id("open-sidebar")
    if opener.is_visible():
        opener.click()
        phone.page.get_by_test_id("search").wait_for()
        phone.page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished))")
        assert phone.page.evaluate(HIDDEN, INSETS) == []
