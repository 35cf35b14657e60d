"""The network goes, the server is killed or restarted: the page comes back by itself and shows what the log holds."""

import re
import signal

import pytest
from playwright.sync_api import expect

from tests.e2e.reading import eventually, until_offered
from tests.gates import Gate

COUNTED = [f"w{number}" for number in range(200)]
WHOLE = " ".join(COUNTED)
LOST = "Failed to load resource: net::ERR_|WebSocket connection to"


class Counting:
    """A model whose script stands in its engine's row, and so survives the process that was asked.

    It waits in the middle and before its last word, so that nothing that is done amid it comes too late.
    """

    model = "tests-counting"

    def __init__(self, site, delay_s):
        self.middle, self.end = Gate(site.data_dir), Gate(site.data_dir)
        words = [{"text": f"{word} "} for word in COUNTED]
        outputs = [*words[:40], self.middle.step, *words[40:-1], self.end.step, words[-1]]
        site.scripted(self.model, script={"outputs": outputs, "delay_s": delay_s})

    def again(self):
        """From now on it waits, whoever went through before."""
        for gate in (self.middle, self.end):
            gate.close()

    def go_on(self):
        """To its end."""
        for gate in (self.middle, self.end):
            gate.open()


@pytest.fixture(scope="module")
def offered(site, person):
    counting = Counting(site, delay_s=0.02)
    until_offered(person("bea"), counting.model)
    return counting


@pytest.fixture
def counting(offered):
    offered.again()
    return offered


@pytest.fixture
def chat(open_chat, wire, counting):
    """A chat in mid-answer, over a wire that can be cut."""
    chat = open_chat(origin=wire.url)
    chat.watch.allow(LOST)
    chat.choose(counting.model)
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


def test_offline_for_a_while_loses_nothing(site, chat, counting, wire):
    chat.writes(60)
    wire.dead = True
    chat.page.context.set_offline(True)
    expect(chat.status).to_have_attribute("data-link", "offline")
    expect(chat.status).to_contain_text("You are offline")
    shown = chat.painted_text
    counting.middle.open()
    eventually(lambda: len(site.log_text(chat.response_id)) > len(shown) + 200)
    assert chat.text == shown
    wire.dead = False
    chat.page.context.set_offline(False)
    counting.end.open()
    chat.ends()
    assert is_whole(site, chat)["epoch"] == 1
    asked_once(chat)


def test_a_cut_connection_is_opened_again_until_one_holds(site, chat, counting, wire):
    chat.writes(60)
    wire.refusing = True
    wire.cut()
    expect(chat.status).to_contain_text(re.compile(r"Reconnecting \([2-9]\)"))
    shown = chat.painted_text
    counting.middle.open()
    eventually(lambda: len(site.log_text(chat.response_id)) > len(shown) + 100)
    assert chat.text == shown
    wire.refusing = False
    counting.end.open()
    chat.ends()
    assert is_whole(site, chat)["epoch"] == 1
    asked_once(chat)


def test_after_kill_9_the_page_reconnects_and_new_text_follows(site, chat, counting):
    counting.middle.open()
    chat.writes(60)
    site.kill()
    expect(chat.status).to_contain_text("Reconnecting")
    shown = chat.text
    assert len(shown) >= 60
    site.start()
    counting.end.open()
    chat.ends()
    row = is_whole(site, chat)
    assert (row["end_state"], row["epoch"]) == ("completed", 2)
    assert WHOLE.startswith(shown.rstrip())
    asked_once(chat)


def test_a_restart_by_sigterm_hands_the_answer_over(site, chat, counting):
    counting.middle.open()
    chat.writes(60)
    assert site.web.end(signal.SIGTERM) == 0
    site.start()
    counting.end.open()
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
    chat.choose(counting.model)
    keys = []
    chat.page.on("request", lambda request: keys.append(request.headers.get("idempotency-key")))
    wire.losing_answers = True
    chat.ask("Count for me")
    running = "SELECT id FROM streaming_response WHERE conversation_id = ? AND state = 'running'"
    ((response_id,),) = eventually(lambda: site.rows(running, chat.conversation_id))
    # Chromium itself repeats a request whose connection it had used before; the page repeats what then fails.
    wire.refusing = True
    wire.cut()
    expect(chat.status).to_contain_text("Reconnecting")
    wire.losing_answers = wire.refusing = False
    counting.go_on()
    chat.ends()
    is_whole(site, chat, earlier="Hello")
    assert chat.response_id == response_id
    roles = "SELECT role, COUNT(*) FROM streaming_message WHERE conversation_id = ? GROUP BY role ORDER BY role"
    assert site.rows(roles, chat.conversation_id) == [("assistant", 2), ("user", 2)]
    # How often it comes in vain is chance.
    asked = [key for key in keys if key]
    assert len(asked) >= 2
    assert len(set(asked)) == 1
