"""What a person does around an answer: editing, searching, saving, choosing how the model is asked, keys, languages."""

import json
import re
from itertools import accumulate

import pytest
from playwright.sync_api import expect

from tests.browser.test_two_devices import is_told
from tests.e2e.reading import eventually, script
from tests.gates import stairs

CODE = "Look:\n\n```python\nprint('a line that is far too long for any narrow window', 1, 2, 3, 4, 5)\n```\n\nEnd."


@pytest.fixture
def chat(open_chat, person):
    """The chat of somebody whose list is empty."""
    client = person("dora")
    for row in client.get("/api/conversations").json()["data"]:
        client.delete(f"/api/conversations/{row['id']}")
    return open_chat("dora")


def test_an_edited_message_is_a_new_branch_and_nothing_is_overwritten(site, chat):
    chat.play(outputs=[{"text": "first answer"}])
    chat.ends()
    chat.ask("and then?")
    chat.ends()
    first = chat.page.get_by_test_id("message-user").first
    first.hover()
    first.get_by_test_id("edit").click()
    chat.page.keyboard.press("Escape")
    expect(first.get_by_test_id("edit")).to_be_focused()
    first.get_by_test_id("edit").click()
    first.get_by_test_id("edit-box").fill(script(outputs=[{"text": "another answer"}]))
    first.get_by_test_id("edit-send").click()
    chat.ends()
    for _ in ("live", "stored"):
        expect(chat.questions).to_have_count(1)
        assert chat.text == "another answer"
        expect(first.get_by_test_id("branches")).to_contain_text("2 / 2")
        chat.page.get_by_role("button", name="Previous version of the message").click()
        expect(chat.questions).to_have_count(2)
        expect(chat.answers.first.get_by_test_id("markdown")).to_have_text("first answer")
        chat.reload()
    roots = "SELECT COUNT(*) FROM streaming_message WHERE conversation_id = ? AND parent_id IS NULL"
    assert site.rows(roots, chat.conversation_id) == [(2,)]


def test_a_search_finds_an_answer_and_leads_to_it(chat):
    chat.play(outputs=[{"text": "line\n\n"}] * 40 + [{"text": "The needle is here."}])
    chat.ends()
    chat.ask("something else")
    chat.ends()
    there = chat.path
    chat.page.get_by_test_id("new-chat").click()
    chat.page.keyboard.press("Control+k")
    expect(chat.page.get_by_test_id("search")).to_be_focused()
    chat.page.keyboard.type("NEEDLE is")
    hit = chat.page.get_by_test_id("hit").first
    expect(hit.locator("mark")).to_have_text("needle is")
    hit.click()
    expect(chat.page).to_have_url(re.compile(re.escape(there) + "#msg_"))
    expect(chat.answers).to_have_count(2)
    expect(chat.answers.first).to_be_in_viewport()
    page_scrolls = "[document.scrollingElement.scrollTop, document.scrollingElement.scrollHeight - innerHeight]"
    assert chat.page.evaluate(page_scrolls) == [0, 0]
    chat.page.get_by_test_id("search").fill("nothing at all like this")
    expect(chat.page.get_by_test_id("hits")).to_contain_text("Nothing was found.")
    chat.page.get_by_test_id("search").press("Escape")
    expect(chat.items).not_to_have_count(0)


def test_a_conversation_is_saved_as_markdown_and_json(chat):
    chat.play(outputs=[{"text": CODE}])
    chat.ends()
    saved = {}
    for kind in ("markdown", "json"):
        chat.page.get_by_test_id("conversation-menu").click()
        with chat.page.expect_download() as download:
            chat.page.get_by_test_id(f"export-{kind}").click()
        saved[kind] = download.value.path().read_text(encoding="utf-8")
    assert CODE in saved["markdown"]
    (question,) = json.loads(saved["json"])["messages"]
    assert question["answers"][0]["text"] == CODE
    assert question["answers"][0]["end_state"] == "completed"


def test_code_is_wrapped_copied_and_saved(chat):
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.play(outputs=[{"text": CODE}])
    chat.ends()
    pre = chat.markdown.locator("pre")
    sideways = "pre => pre.scrollWidth > pre.clientWidth + 1"
    chat.page.set_viewport_size({"width": 500, "height": 700})
    assert pre.evaluate(sideways)
    chat.page.get_by_test_id("wrap-code").click()
    assert not pre.evaluate(sideways)
    source = CODE.split("```")[1].removeprefix("python\n")
    chat.page.get_by_test_id("copy-code").click()
    expect(chat.page.get_by_test_id("copy-code")).to_have_text("Copied")
    assert chat.page.evaluate("navigator.clipboard.readText()") == source
    with chat.page.expect_download() as download:
        chat.page.get_by_test_id("download-code").click()
    assert download.value.suggested_filename == "code.py"
    assert download.value.path().read_text() == source


def test_how_the_model_is_asked_is_kept_with_the_conversation(site, chat):
    chat.page.get_by_test_id("options").click()
    chat.page.get_by_test_id("max-tokens").fill("5")
    chat.page.get_by_test_id("temperature").fill("0.3")
    chat.page.get_by_test_id("tools").fill("no JSON")
    expect(chat.page.get_by_test_id("save-options")).to_be_disabled()
    chat.page.get_by_test_id("tools").fill("")
    chat.page.get_by_test_id("save-options").click()
    for _ in ("first", "after a reload"):
        chat.play(outputs=[{"text": "tick "}], repeat=40)
        chat.ends()
        expect(chat.newest.get_by_test_id("end-mark")).to_have_text("Cut off at the length limit")
        assert site.row(chat.response_id)["generated_tokens"] == 5
        assert json.loads(site.row(chat.response_id)["request"])["sampling"]["temperature"] == 0.3
        chat.reload()


def test_a_number_that_cannot_be_used_is_named_with_its_limits_and_not_saved(chat):
    page = chat.page
    page.get_by_test_id("options").click()
    for field, value, words in (
        ("temperature", "3", "Temperature must be a number from 0 to 2, not 3."),
        ("max-tokens", "1.5", "Most tokens of an answer must be a whole number from 1 to 1,000,000, not 1.5."),
    ):
        page.get_by_test_id(field).fill(value)
        expect(page.get_by_test_id(f"{field}-hint")).to_have_text(words)
        expect(page.get_by_test_id(field)).to_have_accessible_description(words)
        expect(page.get_by_test_id("save-options")).to_be_disabled()
        page.get_by_test_id(field).fill("")
        expect(page.get_by_test_id(f"{field}-hint")).to_have_count(0)
        expect(page.get_by_test_id("save-options")).to_be_enabled()


def test_the_buttons_of_a_window_that_scrolls_are_in_sight_and_hide_no_focus(chat):
    page = chat.page
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_test_id("options").click()
    page.get_by_test_id("json-option").check()
    dialog = page.get_by_test_id("options-dialog")
    assert dialog.evaluate("it => it.scrollHeight > it.clientHeight"), "it scrolls"
    save = page.get_by_test_id("save-options")
    for to in (0, 200, 10_000):
        dialog.evaluate("(it, to) => it.scrollTo(0, to)", to)
        expect(save).to_be_in_viewport(ratio=1)
        x, y, width, height = (save.bounding_box() or {}).values()
        on_top = "([x, y]) => document.elementFromPoint(x, y)?.dataset.testid"
        assert page.evaluate(on_top, [x + width / 2, y + height / 2]) == "save-options"
    dialog.evaluate("it => it.scrollTo(0, 0)")
    page.get_by_test_id("system-prompt").focus()
    foot = dialog.locator(".dialog-actions")
    while page.evaluate("document.activeElement.closest('.dialog-actions') === null"):
        low = page.evaluate("document.activeElement.getBoundingClientRect().bottom")
        assert low <= (foot.bounding_box() or {})["y"], page.evaluate("document.activeElement.dataset.testid")
        page.keyboard.press("Tab")


def test_no_two_controls_of_the_page_share_a_drawing(chat):
    chat.play(outputs=[{"text": "done"}])
    chat.ends()
    controls = chat.page.locator(":is(header.top, .sidebar-head, .account, .dock) :is(button, label):visible:has(svg)")
    drawings = controls.evaluate_all(
        "all => all.map(it => [it.querySelector('path').getAttribute('d'), it.ariaLabel ?? it.textContent.trim()])"
    )
    names: dict[str, set[str]] = {}
    for drawing, name in drawings:
        names.setdefault(drawing, set()).add(name)
    assert len(names) >= 6
    assert [shared for shared in names.values() if len(shared) > 1] == []


def test_what_the_model_is_told_first_is_kept_by_the_server_and_can_be_changed(site, chat, open_chat):
    def tell(page, words):
        page.page.get_by_test_id("options").click()
        page.page.get_by_test_id("system-prompt").fill(words)
        page.page.get_by_test_id("save-options").click()

    def asked() -> int:
        chat.play(outputs=[{"text": "tick"}])
        chat.ends()
        return site.row(chat.response_id)["prompt_tokens"]

    tell(chat, "Answer in rhyme. " * 4)
    told = asked()
    chat.page.get_by_test_id("new-chat").click()
    assert told - asked() >= 4 * len("Answer in rhyme. ")
    with chat.page.expect_response("**/api/conversations/*") as kept:
        tell(chat, "Be brief.")
    assert kept.value.status == 200
    elsewhere = open_chat("dora", path=chat.path)
    expect(elsewhere.questions).to_have_count(1)
    elsewhere.page.get_by_test_id("options").click()
    expect(elsewhere.page.get_by_test_id("system-prompt")).to_have_value("Be brief.")


def test_keys_do_what_the_list_of_them_says(chat):
    keyboard = chat.page.keyboard
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.play(outputs=[{"text": "an answer"}])
    chat.ends()
    keyboard.press("Control+Shift+y")
    eventually(lambda: chat.page.evaluate("navigator.clipboard.readText()") == "an answer")
    keyboard.press("Control+Shift+s")
    expect(chat.page.get_by_test_id("sidebar")).to_be_hidden()
    keyboard.press("Control+Shift+s")
    expect(chat.page.get_by_test_id("sidebar")).to_be_visible()
    chat.composer.press("?")
    expect(chat.composer).to_have_value("?")
    chat.log.focus()
    keyboard.press("?")
    expect(chat.page.get_by_test_id("settings-dialog")).to_be_visible()
    chat.page.get_by_test_id("send-key").select_option("ctrl-enter")
    keyboard.press("Escape")
    expect(chat.page.get_by_test_id("settings-dialog")).to_be_hidden()
    keyboard.press("/")
    expect(chat.composer).to_be_focused()
    keyboard.press("Control+Shift+o")
    expect(chat.page.get_by_test_id("empty-state")).to_be_visible()
    chat.composer.fill("sent")
    keyboard.press("Enter")
    expect(chat.composer).to_have_value("sent\n")
    keyboard.press("Control+Enter")
    expect(chat.questions).to_have_text(["sent"])
    chat.ends()


def test_the_page_speaks_german_where_it_is_chosen_and_where_the_browser_does(open_chat, chat):
    chat.page.get_by_test_id("settings").click()
    chat.page.get_by_test_id("language").select_option("de")
    expect(chat.composer).to_have_attribute("placeholder", "Nachricht schreiben…")
    chat.play(outputs=[{"text": "Hallo"}])
    chat.ends()
    expect(chat.page.get_by_test_id("status-text")).to_have_text("Fertig")
    assert chat.page.evaluate("document.documentElement.lang") == "de"
    expect(open_chat("erika", locale="de-DE").page.get_by_test_id("new-chat")).to_have_text("Neuer Chat")


def test_larger_type_makes_everything_larger(chat):
    size = "parseFloat(getComputedStyle(document.querySelector('[data-testid=new-chat]')).fontSize)"
    before = chat.page.evaluate(size)
    chat.page.get_by_test_id("settings").click()
    chat.page.get_by_test_id("font-size").select_option("large")
    assert chat.page.evaluate(size) > 1.15 * before
    chat.reload()
    assert chat.page.evaluate(size) > 1.15 * before


def test_another_tab_follows_the_list_and_the_running_answer_by_itself(site, chat):
    chat.play(outputs=[{"text": "first"}])
    chat.ends()
    other = chat.second_tab()
    other.ends()
    is_told(other)
    steps = [f"w{i} w{i + 1} " for i in range(0, 80, 2)]
    outputs, gates = stairs([[{"text": step}] for step in steps], site.data_dir)
    chat.play(outputs=outputs)
    expect(other.answers).to_have_count(2)
    other.climbs(gates, accumulate(steps[:-1]))
    for tab in (other, chat):
        tab.ends()
        assert tab.text == " ".join(f"w{i}" for i in range(80))
    assert len(other.probe("paints")) >= 10
    chat.page.get_by_test_id("new-chat").click()
    chat.ask("a second conversation")
    chat.ends()
    expect(other.items).to_have_count(2)


def test_an_answer_is_marked_good_or_bad_and_stays_so(site, chat):
    chat.play(outputs=[{"text": "a fine answer"}])
    chat.ends()
    good, bad = (chat.newest.get_by_test_id(mark) for mark in ("good", "bad"))
    good.press("Enter")
    expect(good).to_have_attribute("aria-pressed", "true")
    eventually(lambda: site.row(chat.response_id)["mark"] == "good")
    bad.click()
    expect(good).to_have_attribute("aria-pressed", "false")
    eventually(lambda: site.row(chat.response_id)["mark"] == "bad")
    chat.reload()
    expect(bad).to_have_attribute("aria-pressed", "true")
    chat.page.route("**/api/responses/*", lambda route: route.abort())
    chat.watch.allow("ERR_FAILED")
    bad.click()
    expect(chat.page.locator(".toast")).to_be_visible()
    expect(bad).to_have_attribute("aria-pressed", "true")
    assert site.row(chat.response_id)["mark"] == "bad"
