"""Answers of JSON: a tree that fills, judged only when it is whole, and the same after a reload."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.judge import found
from tests.e2e.reading import script

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "lights": {"type": "array"}},
    "required": ["name"],
}
GOOD = json.dumps(
    {"name": "<b>Fastnet</b> 🗼", "lights": [{"height_m": 49, "lit": True}, {"height_m": 50}]}, ensure_ascii=False
)

#: A string and a name are there, what follows them is not, and nothing has been judged.
HALF_FILLED = """
() => {
  const text = document.querySelector('[data-testid=json]')?.textContent ?? '';
  return text.includes('Fastnet') && text.includes('height_m') && !text.includes('50')
    && !document.querySelector('[data-testid=json-verdict]');
}
"""


@pytest.fixture
def chat(open_chat):
    """A chat whose answers are to be JSON of SCHEMA."""
    chat = open_chat("jason", color_scheme="light")
    chat.page.get_by_test_id("options").click()
    chat.page.get_by_test_id("json-option").check()
    chat.page.get_by_test_id("json-schema").fill("[1]")
    expect(chat.page.get_by_test_id("save-options")).to_be_disabled()
    chat.page.get_by_test_id("json-schema").fill(json.dumps(SCHEMA))
    chat.page.get_by_test_id("save-options").click()
    return chat


def pieces(text):
    return [{"text": text[start : start + 4]} for start in range(0, len(text), 4)]


def test_json_is_a_tree_while_it_fills_and_is_judged_when_it_is_whole(chat, gate):
    tree, verdict = chat.newest.get_by_test_id("json"), chat.newest.get_by_test_id("json-verdict")
    half = GOOD.index("50")
    chat.ask(script(outputs=[*pieces(GOOD[:half]), gate.step, *pieces(GOOD[half:])], delay_s=0.005))
    chat.until(HALF_FILLED)
    gate.open()
    chat.ends()
    for _ in ("live", "stored"):
        expect(tree.locator(".json-literal")).to_have_text(["49", "true", "50"])
        expect(verdict).to_have_text("Valid: this is the JSON that was asked for.")
        assert chat.page.evaluate("document.querySelector('.json b')") is None
        assert found(chat.page) == []
        chat.reload()
        expect(verdict).to_be_visible()

    chat.ask(script(outputs=pieces('{"lights": "none"}')))
    chat.ends()
    for _ in ("live", "stored"):
        expect(verdict).to_contain_text("Does not follow its schema at /")
        chat.reload()
        expect(verdict).to_be_visible()

    chat.ask(script(outputs=pieces('{"name": "Fast'), finish_reason="length"))
    chat.ends()
    expect(tree).to_contain_text("Fast")
    expect(verdict).to_contain_text("Not whole")
    expect(chat.page.get_by_test_id("continue")).to_have_count(0)
