"""Continue: an answer that was cut is written on from in its own place, and what there was of it stays."""

import re

from playwright.sync_api import expect

BEGUN = "A list:\n\n1. one\n2. tw"


def test_a_cut_answer_is_written_on_from_in_its_own_place(chat):
    chat.play(outputs=[{"text": BEGUN}, {"gate": "never"}])
    chat.writes(10)
    chat.stop.click()
    chat.ends("cancelled")
    first_id = chat.response_id
    chat.newest.get_by_test_id("continue").click()
    # The scripted engine knows nothing but its script, and plays it once more.
    chat.until(f"() => document.body.innerText.includes('tw{BEGUN[:6]}')")
    expect(chat.answers).to_have_count(1)
    # One text to Markdown as well: the numbers go on in one list.
    expect(chat.newest.locator("ol")).to_have_count(1)
    expect(chat.newest.locator("ol li")).to_have_count(4)
    chat.stop.click()
    chat.ends("cancelled")
    assert chat.response_id != first_id
    shown = chat.text
    chat.reload()
    expect(chat.answers).to_have_count(1)
    expect(chat.markdown).to_have_text(shown)
    # A new answer is one to the question, not to the first part.
    chat.newest.get_by_test_id("regenerate").click()
    chat.writes(10)
    chat.stop.click()
    chat.ends("cancelled")
    assert "twA list" in shown
    assert "twA list" not in chat.text
    expect(chat.newest.get_by_test_id("branches")).to_have_count(1)
    chat.newest.get_by_role("button", name="Previous answer").click()
    expect(chat.markdown).to_have_text(shown)


def test_an_answer_that_failed_offers_the_rest_and_one_that_is_whole_does_not(chat):
    chat.play(outputs=[{"text": "half an"}], fault={"kind": "error", "after": 1, "times": 9})
    chat.ends("errored")
    expect(chat.error_card.get_by_test_id("continue")).to_be_visible()
    chat.play(outputs=[{"text": "whole"}])
    chat.ends()
    expect(chat.page.get_by_test_id("continue")).to_have_count(0)
    chat.play(outputs=[{"text": "as much as"}], finish_reason="length")
    chat.ends()
    chat.newest.get_by_test_id("continue").click()
    expect(chat.markdown).to_have_text(re.compile("as much asas much as"))
    chat.ends()
    with chat.page.expect_download() as saved:
        chat.page.get_by_test_id("conversation-menu").click()
        chat.page.get_by_test_id("export-markdown").click()
    assert saved.value.path().read_text().count("## Assistant") == 3
