"""Stop reaches the engine: by button and by Escape, before and after the first token, from any tab."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.held import Held
from tests.e2e.reading import eventually


@pytest.mark.engine
@pytest.mark.parametrize("way", ["button", "escape"])
def test_stop_frees_the_engine_and_tells_the_servers_figure(site, chat, way):
    chat.choose("smollm2")
    chat.without_chance()
    chat.ask("Tell me about lighthouses")
    chat.paints(12)  # each brought a token or more
    if way == "button":
        chat.stop.click()
    else:
        chat.page.keyboard.press("Escape")
    eventually(lambda: site.slots_busy() == 0)
    chat.ends("cancelled")
    row = site.row(chat.response_id)
    assert (row["end_state"], row["end_reason"], row["abort_proven"]) == ("cancelled", "user", 1)
    assert row["generated_tokens"] >= row["sent_tokens"] >= 10
    told = f"Stopped after {row['generated_tokens']} tokens"
    expect(chat.page.get_by_test_id("status-text")).to_have_text(told)
    expect(chat.newest.get_by_test_id("end-mark")).to_have_text(told)
    expect(chat.composer).to_be_focused()
    shown = chat.text
    assert len(shown) > 20
    chat.reload()
    expect(chat.markdown).to_have_text(shown)
    expect(chat.newest.get_by_test_id("end-mark")).to_have_text(told)
    expect(chat.stop).to_have_count(0)


def test_stop_before_the_first_token_ends_it_without_text(site, chat):
    chat.play(outputs=[{"gate": "never"}])
    running = "SELECT id FROM streaming_response WHERE conversation_id = ? AND state = 'running'"
    eventually(lambda: site.rows(running, chat.conversation_id))
    chat.stop.click()
    chat.ends("cancelled")
    row = eventually(lambda: newest_row(site))
    assert (row["end_state"], row["end_reason"], row["generated_tokens"]) == ("cancelled", "user", 0)
    expect(chat.error_card).to_have_count(0)
    assert chat.text == ""
    chat.play(outputs=[{"text": "and on it goes"}])
    chat.ends()
    chat.reload()
    expect(chat.answers).to_have_count(2)
    expect(chat.answers.first.get_by_test_id("end-mark")).to_have_text(re.compile("Stopped"))
    assert chat.text == "and on it goes"


def test_a_stop_that_overtakes_its_message_keeps_the_message_on_the_page(site, chat):
    chat.watch.allow("Failed to load resource: the server responded with a status of")
    message = Held(chat.page, "**/messages", times=1)
    chat.play(outputs=[{"text": "never to be seen"}])
    message.came()
    with chat.page.expect_response("**/cancel") as stopped:
        chat.stop.click()
    assert stopped.value.status == 200
    message.let_go()
    chat.ends("cancelled")
    expect(chat.questions).to_contain_text(["never to be seen"])
    assert chat.text == ""
    assert newest_row(site)["end_state"] == "cancelled"

    chat.newest.get_by_test_id("regenerate").click()
    chat.ends()
    assert chat.text == "never to be seen"
    expect(chat.questions).to_have_count(1)
    chat.reload()
    expect(chat.questions).to_have_count(1)
    assert chat.text == "never to be seen"
    expect(chat.composer).to_have_value("")


def test_a_second_tab_stops_an_answer_before_its_first_token(site, chat):
    chat.play(outputs=[{"gate": "never"}])
    other = chat.second_tab(f"/c/{chat.conversation_id}")
    expect(other.page.get_by_test_id("status-text")).to_have_text(re.compile("Thinking"))
    other.stop.click()
    for tab in (other, chat):
        tab.ends("cancelled")
        expect(tab.error_card).to_have_count(0)
        expect(tab.page.get_by_test_id("status-text")).to_have_text("Stopped after 0 tokens")
    assert site.row(other.response_id)["end_reason"] == "user"


def test_a_second_tab_stops_a_running_answer_and_both_say_so(site, chat):
    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    chat.writes(30)
    other = chat.second_tab(f"/c/{chat.conversation_id}")
    other.writes(30)
    other.page.keyboard.press("Escape")
    row = None
    for tab in (other, chat):
        tab.ends("cancelled")
        row = site.row(tab.response_id)
        expect(tab.page.get_by_test_id("status-text")).to_have_text(f"Stopped after {row['generated_tokens']} tokens")
        assert tab.text == row["output_text"].strip()


def newest_row(site):
    (response_id,) = site.rows("SELECT id FROM streaming_response WHERE purpose = 'chat' ORDER BY id DESC LIMIT 1")[0]
    row = site.row(response_id)
    return row if row["end_state"] else None
