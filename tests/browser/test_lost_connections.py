"""The network goes, the server is killed or restarted: the page comes back by itself and shows what the log holds."""

import re
import signal

import pytest
from playwright.sync_api import expect

from tests.e2e.reading import eventually, until_offered

COUNTED = [f"w{number}" for number in range(200)]
WHOLE = " ".join(COUNTED)
LOST = "Failed to load resource: net::ERR_|WebSocket connection to"


@pytest.fixture(scope="module")
def counting(site, person):
    """A model whose script stands in its engine's row, and so survives the process that was asked."""
    played = {"outputs": [{"text": f"{word} "} for word in COUNTED], "delay_s": 0.02}
    site.scripted("counting", script=played)
    until_offered(person("bea"), "counting")
    return "counting"


@pytest.fixture
def chat(open_chat, wire, counting):
    """A chat in mid-answer, over a wire that can be cut."""
    chat = open_chat(origin=wire.url)
    chat.watch.allow(LOST)
    chat.choose(counting)
    chat.ask("Count for me")
    return chat


def is_whole(site, chat, earlier=""):
    """The page shows what the row and the log hold, and never showed anything else on the way.

    ``earlier`` is the answer before: its last paint may come after a test began to look.
    """
    assert chat.text == WHOLE
    shown = [paint["text"].rstrip() for paint in chat.probe("paints")]
    assert [text for text in shown if text != earlier and not WHOLE.startswith(text)] == []
    row = site.row(chat.response_id)
    assert row["output_text"] == site.log_text(row["id"]) == WHOLE + " "
    return row


def asked_once(chat):
    assert chat.watch.sent.count(("POST", f"/api/conversations/{chat.conversation_id}/messages")) == 1


def test_offline_for_a_while_loses_nothing(site, chat, wire):
    chat.writes(60)
    wire.dead = True
    chat.page.context.set_offline(True)
    expect(chat.status).to_have_attribute("data-link", "offline")
    expect(chat.status).to_contain_text("You are offline")
    shown = chat.painted_text
    eventually(lambda: len(site.log_text(chat.response_id)) > len(shown) + 200)
    assert chat.text == shown
    wire.dead = False
    chat.page.context.set_offline(False)
    chat.ends()
    assert is_whole(site, chat)["epoch"] == 1
    asked_once(chat)


def test_a_cut_connection_is_opened_again_until_one_holds(site, chat, wire):
    chat.writes(60)
    wire.refusing = True
    wire.cut()
    expect(chat.status).to_contain_text(re.compile(r"Reconnecting \([2-9]\)"))
    shown = chat.painted_text
    eventually(lambda: len(site.log_text(chat.response_id)) > len(shown) + 100)
    assert chat.text == shown
    wire.refusing = False
    chat.ends()
    assert is_whole(site, chat)["epoch"] == 1
    asked_once(chat)


def test_after_kill_9_the_page_reconnects_and_new_text_follows(site, chat):
    chat.writes(60)
    site.kill()
    expect(chat.status).to_contain_text("Reconnecting")
    shown = chat.text
    assert len(shown) >= 60
    site.start()
    chat.ends()
    row = is_whole(site, chat)
    assert (row["end_state"], row["epoch"]) == ("completed", 2)
    assert WHOLE.startswith(shown.rstrip())
    asked_once(chat)


def test_a_restart_by_sigterm_hands_the_answer_over(site, chat):
    chat.writes(60)
    assert site.web.end(signal.SIGTERM) == 0
    site.start()
    chat.ends()
    row = is_whole(site, chat)
    assert (row["end_state"], row["epoch"]) == ("completed", 2)


def test_a_question_whose_first_bytes_were_lost_is_asked_once(site, open_chat, wire, counting):
    """The page does not know yet which response is its own: it asks again under the same key."""
    chat = open_chat(origin=wire.url)
    chat.watch.allow(LOST)
    chat.play(outputs=[{"text": "Hello"}])
    chat.ends()
    chat.page.evaluate("window.__probe.paints.length = 0")
    chat.choose(counting)
    wire.losing_answers = True
    chat.ask("Count for me")
    running = "SELECT id FROM streaming_response WHERE conversation_id = ? AND state = 'running'"
    ((response_id,),) = eventually(lambda: site.rows(running, chat.conversation_id))
    # Chromium itself repeats a request whose connection it had used before; the page repeats what then fails.
    wire.refusing = True
    wire.cut()
    expect(chat.status).to_contain_text("Reconnecting")
    wire.losing_answers = wire.refusing = False
    chat.ends()
    is_whole(site, chat, earlier="Hello")
    assert chat.response_id == response_id
    roles = "SELECT role, COUNT(*) FROM streaming_message WHERE conversation_id = ? GROUP BY role ORDER BY role"
    assert site.rows(roles, chat.conversation_id) == [("assistant", 2), ("user", 2)]
    assert chat.watch.sent.count(("POST", f"/api/conversations/{chat.conversation_id}/messages")) == 3
