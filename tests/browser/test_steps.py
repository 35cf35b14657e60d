"""Reasoning stands apart from the answer, a tool call shows its name at once; both come again from the log."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.e2e.reading import until_offered

REASONING = "First I think about **lighthouses**, then about the sea."
TOOLS = {"tools": [{"type": "function", "function": {"name": "get_weather"}}]}
HOSTILE = "<img src=x onerror=window.__xss=1>"


@pytest.fixture(scope="module")
def thinker(site, person):
    """A model that marks its reasoning and its calls. Its gates never open: what waits there is stopped."""
    site.scripted("thinker", markers="think+hermes", mode="text")
    until_offered(person("bea"), "thinker")
    return "thinker"


@pytest.fixture
def chat(open_chat, thinker):
    """A chat whose messages offer a tool."""
    chat = open_chat()
    chat.page.route("**/messages", lambda route: route.continue_(post_data={**route.request.post_data_json, **TOOLS}))
    chat.choose(thinker)
    return chat


def pieces(text, chars=7):
    return [{"text": text[start : start + chars]} for start in range(0, len(text), chars)]


def call(name, arguments):
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>\n'


def arguments(chat):
    return chat.newest.get_by_test_id("tool-arguments")


def test_reasoning_is_folded_counts_its_seconds_and_is_not_part_of_the_answer(chat):
    thinking = {"outputs": [*pieces(f"<think>\n{REASONING}"), {"gate": "never"}]}
    chat.play(**thinking)
    head = chat.newest.get_by_test_id("reasoning-head")
    expect(head).to_have_text(re.compile(r"Thinking… [1-9] s"))
    expect(chat.page.get_by_test_id("status-text")).to_have_text(re.compile(r"Thinking… \d+ s"))
    expect(chat.newest.get_by_test_id("reasoning-text")).to_have_count(0)
    chat.reload()
    expect(head).to_have_text(re.compile(r"Thinking… [1-9]\d* s"))
    head.click()
    expect(chat.newest.get_by_test_id("reasoning-text")).to_have_text(REASONING.replace("*", ""))
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    assert chat.probe("said") == ["Thinking", chat.page.get_by_test_id("status-text").text_content()]

    chat.play(outputs=[*pieces(f"<think>\n{REASONING}</think>\n\n"), *pieces("The answer.")], delay_s=0.02)
    chat.ends()
    assert chat.text == "The answer."
    expect(head).to_have_text(re.compile(r"^Thought for \d s"))
    for _ in ("live", "stored"):
        chat.newest.get_by_test_id("reasoning-head").press("Enter")
        shown = chat.newest.get_by_test_id("reasoning-text")
        expect(shown).to_have_text(REASONING.replace("*", ""))
        expect(shown.locator("strong")).to_have_text("lighthouses")
        assert chat.text == "The answer."
        chat.reload()
        expect(chat.newest.get_by_test_id("reasoning-head")).to_have_text("Thought")


def test_a_tool_call_shows_its_name_before_its_arguments_and_fills_in(chat):
    whole = call("get_weather", '{"city": "Köln 👩‍👩‍👧‍👦", "days": 3, "units": {"wind": "km/h"}}')
    cut = whole.index(' "days"')
    chat.play(outputs=[{"text": "Let me look. "}, {"text": whole[: whole.index("{", 20) + 1]}, {"gate": "never"}])
    expect(chat.newest.get_by_test_id("tool-name")).to_have_text("get_weather")
    expect(chat.newest.get_by_test_id("tool-call")).to_have_attribute("data-state", "writing")
    expect(chat.page.get_by_test_id("status-text")).to_have_text("Calling get_weather…")
    expect(arguments(chat)).to_have_count(0)
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    expect(chat.newest.get_by_test_id("tool-state")).to_have_text("cut off")

    chat.play(outputs=[*pieces(whole[:cut], 3), {"gate": "never"}], delay_s=0.005)
    for _ in ("live", "after a reload"):
        expect(arguments(chat).locator("dt")).to_have_text(["city"])
        expect(arguments(chat).locator("dd")).to_have_text(["Köln 👩‍👩‍👧‍👦"])
        expect(chat.newest.get_by_test_id("tool-state")).to_have_text("writing arguments…")
        chat.reload()
    expect(chat.stop).to_be_visible()
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")

    chat.play(outputs=pieces(f"Let me look.\n{whole}", 5), delay_s=0.005, finish_reason="tool_calls")
    chat.ends()
    for _ in ("live", "stored"):
        expect(chat.newest.get_by_test_id("tool-state")).to_have_text("called")
        expect(arguments(chat).locator("dt")).to_have_text(["city", "days", "units"])
        expect(arguments(chat).locator("dd").nth(1)).to_have_text("3")
        expect(arguments(chat).locator("dd").nth(2)).to_have_text('{ "wind": "km/h" }')
        assert chat.text == "Let me look."
        chat.reload()


def test_invalid_arguments_are_flagged_and_shown_as_they_are(chat):
    bad = call("get_weather", '{"city": "Köln", days: 3}')
    chat.play(outputs=pieces(bad, 5), delay_s=0.005)
    chat.ends()
    for _ in ("live", "stored"):
        expect(chat.newest.get_by_test_id("tool-state")).to_have_text("invalid arguments")
        expect(chat.newest.get_by_test_id("tool-raw")).to_contain_text('{"city": "Köln", days: 3}')
        expect(arguments(chat)).to_have_count(0)
        chat.reload()


def test_names_arguments_and_reasoning_are_hostile_too(chat):
    text = f"<think>{HOSTILE}[x](javascript:window.__xss=1)</think>{call(HOSTILE, json.dumps({HOSTILE: HOSTILE * 60}))}"
    chat.play(outputs=pieces(text), delay_s=0.002)
    chat.ends()
    chat.newest.get_by_test_id("reasoning-head").click()
    expect(chat.newest.get_by_test_id("reasoning-text")).to_contain_text(HOSTILE)
    expect(chat.newest.get_by_test_id("tool-name")).to_have_text(HOSTILE)
    assert len(arguments(chat).locator("dd").text_content()) < 1400
    chat.newest.get_by_test_id("show-all").click()
    expect(arguments(chat).locator("dd")).to_have_text(HOSTILE * 60)
    assert chat.page.evaluate("[document.querySelectorAll('img').length, window.__xss]") == [0, None]
