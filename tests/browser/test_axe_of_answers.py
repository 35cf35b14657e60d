"""axe and every form an answer and a window can take: each is seen to be on the screen before axe looks at it.

In light and dark, on a desk and at 390 px. Costs about 45 s.
"""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.judge import found_in_both
from tests.browser.test_steps import TOOLS, call, pieces
from tests.e2e.reading import until_offered

NARROW = {"width": 390, "height": 800}
WIDE = {"width": 1280, "height": 800}
LONG = "Höhe über dem Meer, " * 70
OPENED = (("open-keys", "keys-dialog"), ("open-usage", "usage-dialog"), ("settings", "settings-dialog"))


@pytest.fixture(scope="module")
def thinker(site, person):
    """A model that marks its reasoning and its calls, and one whose answers are bare."""
    options = json.dumps({"markers": "think+hermes", "mode": "text"})
    site.manage(
        "add_engine", "--kind", "scripted", "--model", "tests-axe", "--name", "tests-axe", "--options", options,
        "--context", "100000",
    )  # fmt: skip
    until_offered(person("bea"), "tests-axe")
    return "tests-axe"


@pytest.fixture
def chat(open_chat):
    return open_chat("axeman", color_scheme="light")


def faults(page, *parts) -> dict[str, list[str]]:
    """What axe finds with each of the parts in sight, wide and narrow."""
    finds = {}
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for part in parts:
            part.scroll_into_view_if_needed()
            expect(part).to_be_in_viewport()
            finds[f"{size['width']} {part}"] = found_in_both(page)
    page.set_viewport_size(WIDE)
    return {place: faults for place, faults in finds.items() if faults}


def test_reasoning_and_tool_calls(chat, thinker):
    chat.page.route("**/messages", lambda route: route.continue_(post_data={**route.request.post_data_json, **TOOLS}))
    chat.choose(thinker)
    thought = "<think>\nIs it **far**? `yes`\n</think>\n\n"
    chat.play(outputs=[*pieces(thought), {"text": "Let me look. "}, {"gate": "never"}])
    chat.writes(8)
    folded = chat.newest.get_by_test_id("reasoning-head")
    expect(folded).to_have_text(re.compile(r"Thought for \d+ s"))
    finds = faults(chat.page, folded)
    chat.watch.allow("ERR_INTERNET_DISCONNECTED|WebSocket connection to")
    chat.page.context.set_offline(True)
    expect(chat.status).to_contain_text("offline")
    finds |= faults(chat.page, chat.status)
    chat.page.context.set_offline(False)
    expect(chat.status).to_have_attribute("data-link", "live")
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    finds |= faults(chat.page, chat.newest.get_by_test_id("end-mark"))

    chat.play(
        outputs=pieces(thought + call("get_weather", json.dumps({"city": LONG, "days": 3})), 40),
        finish_reason="tool_calls",
    )
    chat.ends()
    card = chat.newest.get_by_test_id("tool-call")
    expect(card).to_have_attribute("data-state", "complete")
    chat.newest.get_by_test_id("reasoning-head").click()
    expect(card.get_by_test_id("show-all")).to_be_visible()
    finds |= faults(chat.page, chat.newest.get_by_test_id("reasoning-text").locator("strong"), card)

    chat.play(outputs=pieces(call("get_weather", "[1, 2")), finish_reason="tool_calls")
    chat.ends()
    finds |= faults(chat.page, chat.newest.get_by_test_id("tool-raw"))
    assert finds == {}


def test_answers_of_json(chat):
    page = chat.page
    page.get_by_test_id("options").click()
    page.get_by_test_id("json-option").check()
    page.get_by_test_id("json-schema").fill("[1]")
    expect(page.get_by_test_id("json-schema")).to_have_attribute("aria-invalid", "true")
    finds = faults(page, page.get_by_test_id("json-schema"))
    page.get_by_test_id("json-schema").fill('{"type": "object"}')
    page.get_by_test_id("save-options").click()
    forms = (
        ('{"name": "Fastnet", "lights": [{"height_m": 49, "lit": true, "mark": null}]}', "json"),
        ("[49]", "json-verdict"),
        ("no JSON at all", "json-raw"),
    )
    for text, part in forms:
        chat.play(outputs=[{"text": text}])
        chat.ends()
        expect(chat.newest.get_by_test_id("json-verdict")).to_be_visible()
        finds |= faults(page, chat.newest.get_by_test_id(part))
    assert finds == {}


def test_failures_branches_marks_and_editing(chat):
    page = chat.page
    chat.play(outputs=[{"text": "half "}, {"text": "an answer"}], fault={"kind": "error", "after": 1})
    chat.ends("errored")
    finds = faults(page, chat.error_card)
    chat.play(outputs=[{"text": "whole"}])
    chat.ends()
    chat.newest.get_by_test_id("good").click()
    expect(chat.newest.get_by_test_id("good")).to_have_attribute("aria-pressed", "true")
    chat.newest.get_by_test_id("regenerate").click()
    expect(chat.newest.get_by_test_id("branches")).to_contain_text("2 / 2")
    chat.ends()
    finds |= faults(page, chat.newest.get_by_test_id("branches"))
    question = page.get_by_test_id("message-user").last
    question.hover()
    question.get_by_test_id("edit").click()
    finds |= faults(page, question.get_by_test_id("edit-box"))
    assert finds == {}


def test_every_window(chat):
    page = chat.page
    chat.play(outputs=[{"text": "an answer"}])
    chat.ends()
    finds = {}
    for opener, name in OPENED:
        page.get_by_test_id(opener).click()
        window = page.get_by_test_id(name)
        expect(window).to_be_visible()
        finds |= faults(page, window)
        page.keyboard.press("Escape")
        expect(window).to_be_hidden()
    page.get_by_test_id("conversation-menu").click()
    page.get_by_test_id("share").click()
    page.get_by_test_id("share-dialog").get_by_test_id("create-share").click()
    finds |= faults(page, page.get_by_test_id("made-link"))
    page.keyboard.press("Escape")
    assert finds == {}
