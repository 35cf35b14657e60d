"""The list of conversations and the address bar; and what becomes of a message when the session is gone."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.held import Held
from tests.e2e.reading import eventually

LIST = re.compile(r"/api/conversations(\?.*)?$")
HOSTILE = "<img src=x onerror=window.__xss=1><b>bold</b>"


@pytest.fixture
def chat(open_chat, person):
    """The chat of somebody whose list is empty."""
    client = person("carl")
    for row in client.get("/api/conversations").json()["data"]:
        client.delete(f"/api/conversations/{row['id']}")
    return open_chat("carl")


def new_chat(chat, question):
    chat.page.get_by_test_id("new-chat").click()
    expect(chat.page.get_by_test_id("empty-state")).to_be_visible()
    chat.ask(question)
    chat.ends()


def delete(chat, title):
    chat.item(title).hover()
    chat.item(title).get_by_test_id("delete").click()


def test_conversations_are_made_renamed_and_deleted(site, chat):
    expect(chat.page.get_by_test_id("sidebar")).to_contain_text("Your conversations will appear here.")
    new_chat(chat, "about tea")
    new_chat(chat, "about coffee")
    expect(chat.items).to_have_text([re.compile("about coffee"), re.compile("about tea")])
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("about coffee")

    pin = chat.item("about tea").get_by_test_id("pin")
    chat.item("about tea").hover()
    pin.click()
    expect(pin).to_have_attribute("aria-pressed", "true")
    expect(chat.items).to_have_text([re.compile("about tea"), re.compile("about coffee")])
    expect(chat.page.get_by_role("heading", name="Pinned")).to_be_visible()
    chat.reload()
    expect(chat.items.first).to_contain_text("about tea")
    chat.item("about tea").hover()
    pin.click()
    expect(chat.items.last).to_contain_text("about tea")
    expect(chat.page.get_by_role("heading", name="Pinned")).to_have_count(0)

    chat.item("about tea").hover()
    chat.item("about tea").get_by_test_id("rename").click()
    chat.page.get_by_test_id("rename-input").fill(HOSTILE)
    chat.page.keyboard.press("Enter")
    expect(chat.item(HOSTILE)).to_have_count(1)
    chat.reload()
    expect(chat.item(HOSTILE)).to_have_count(1)
    assert chat.page.evaluate("document.querySelector('img')") is None

    delete(chat, HOSTILE)
    expect(chat.items).to_have_count(1)
    expect(chat.page.get_by_test_id("undo-notice")).to_contain_text(HOSTILE)
    delete(chat, "about coffee")
    expect(chat.items).to_have_count(0)
    expect(chat.page.get_by_test_id("empty-state")).to_be_visible()
    expect(chat.page).to_have_url(site.url + "/")
    chat.page.reload()
    expect(chat.page.get_by_test_id("sidebar")).to_contain_text("Your conversations will appear here.")


def test_back_and_forward_and_a_deep_link_lead_to_the_conversation(chat):
    new_chat(chat, "about tea")
    tea = chat.path
    new_chat(chat, "about coffee")
    chat.item("about tea").get_by_role("link").click()
    expect(chat.questions).to_have_text("about tea")
    chat.page.go_back()
    expect(chat.questions).to_have_text("about coffee")
    chat.page.go_forward()
    expect(chat.questions).to_have_text("about tea")
    assert chat.path == tea
    other = chat.second_tab(tea)
    expect(other.questions).to_have_text("about tea")
    expect(other.page).to_have_title(re.compile("about tea"))
    expect(other.item("about tea").get_by_role("link")).to_have_attribute("aria-current", "page")


def test_an_answer_goes_on_while_another_conversation_is_read(site, chat, gate):
    words = [{"text": f"w{i} "} for i in range(100)]
    chat.play(outputs=[*words[:20], gate.step, *words[20:]], delay_s=0.01)
    chat.writes(10)
    running, response_id = chat.path, chat.response_id
    expect(chat.items.first).to_contain_text("answering now")
    new_chat(chat, "about coffee")
    gate.open()
    eventually(lambda: site.row(response_id)["end_state"])
    chat.page.go_back()
    chat.page.go_back()
    expect(chat.page).to_have_url(re.compile(running))
    chat.ends()
    assert chat.text == " ".join(f"w{i}" for i in range(100))
    expect(chat.page.get_by_text("answering now")).to_have_count(0)


def test_a_deleted_conversation_can_be_brought_back_for_a_while_and_its_answer_goes_on_until_then(site, chat):
    chat.page.clock.install()
    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    chat.writes(10)
    response_id, conversation_id = chat.response_id, chat.conversation_id
    chat.items.first.get_by_test_id("delete").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.items).to_have_count(0)
    expect(chat.page.get_by_test_id("removed")).to_contain_text("was deleted")
    expect(chat.page.get_by_test_id("undo")).to_be_focused()
    chat.page.clock.run_for(20_000)  # time stands still while the keyboard is there
    chat.page.keyboard.press("Enter")
    expect(chat.items).to_have_count(1)
    expect(chat.stop).to_be_visible()
    assert site.rows("SELECT end_state FROM streaming_response WHERE id = ?", response_id) == [(None,)]

    delete(chat, "")
    chat.page.keyboard.press("Control+z")
    expect(chat.items).to_have_count(1)
    delete(chat, "")
    expect(chat.page.get_by_test_id("empty-state")).to_be_visible()
    assert site.rows("SELECT end_state FROM streaming_response WHERE id = ?", response_id) == [(None,)]
    chat.page.mouse.move(0, 0)
    chat.page.clock.run_for(9_000)
    expect(chat.page.get_by_test_id("undo-notice")).to_have_count(0)
    eventually(lambda: site.rows("SELECT id FROM streaming_conversation WHERE id = ?", conversation_id) == [])
    assert site.rows("SELECT state FROM streaming_response WHERE id = ?", response_id) in ([], [("ended",)])


def test_leaving_the_page_deletes_what_could_still_be_brought_back(site, chat):
    new_chat(chat, "about tea")
    conversation_id = chat.conversation_id
    delete(chat, "about tea")
    chat.page.goto("about:blank")
    eventually(lambda: site.rows("SELECT id FROM streaming_conversation WHERE id = ?", conversation_id) == [])


def test_another_persons_conversation_is_not_there(open_chat, chat):
    new_chat(chat, "my secret")
    stranger = open_chat("stranger")
    stranger.watch.allow("status of 404")
    stranger.open(chat.path)
    expect(stranger.page.get_by_role("alert")).to_contain_text("does not exist, or it is not yours")
    expect(stranger.questions).to_have_count(0)


def test_a_message_sent_after_the_session_ended_is_kept_over_the_login(site, chat):
    chat.watch.allow("status of 401")
    new_chat(chat, "about tea")
    path = chat.path
    Held(chat.page, LIST)  # else what it asks by itself may be refused first, and lead to the login
    chat.page.context.clear_cookies(name="sessionid")
    chat.composer.fill("what about green tea?")
    chat.composer.press("Enter")
    expect(chat.page).to_have_url(re.compile(r"/login/\?next=%2Fc%2F"))
    # The same browser signs in again, by a new link in another tab.
    chat.page.context.new_page().goto(site.url + site.manage("login_link", "carl"))
    chat.open(path)
    expect(chat.composer).to_have_value("what about green tea?")
    expect(chat.questions).to_have_count(1)
    chat.composer.press("Enter")
    expect(chat.questions).to_have_count(2)
    chat.ends()
    expect(chat.composer).to_have_value("")
    chat.reload()
    expect(chat.composer).to_have_value("")


def test_drafts_are_kept_for_each_conversation_over_a_reload(chat):
    new_chat(chat, "about tea")
    chat.composer.fill("tea draft")
    chat.page.get_by_test_id("new-chat").click()
    expect(chat.composer).to_have_value("")
    chat.composer.fill("new draft")
    chat.item("about tea").get_by_role("link").click()
    expect(chat.composer).to_have_value("tea draft")
    chat.reload()
    expect(chat.composer).to_have_value("tea draft")
    chat.page.get_by_test_id("new-chat").click()
    expect(chat.composer).to_have_value("new draft")
