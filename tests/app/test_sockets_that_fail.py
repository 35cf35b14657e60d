"""A fault of ours ends what a page is told with a word, and what runs beside begins anew. Costs about 3 s."""

import asyncio
import json
from functools import partial

import pytest

from streaming import ownership
from streaming.consumers import live, me, sockets
from streaming.consumers.live import Live
from streaming.consumers.me import Me
from streaming.ownership import beside
from streaming.ownership.beside import Beside
from tests.app.test_sockets_that_are_cut import Watcher

# Channels looks after the connection of a thread that other tests may have left open: forbidden, it ends the socket.
pytestmark = pytest.mark.django_db
RESPONSE = "resp_" + "0" * 26


class Broken:
    """What runs, or a page's lists: looking fails for a reason that is no database's."""

    async def now(self):
        raise KeyError("rows")

    async def begin(self, user_id):
        return None


@pytest.fixture
async def said(monkeypatch):
    """Opens a socket; gives what the page may say to it, and all that it is told, in order."""
    found = sockets.Sockets(most=9, most_per_user=9)
    monkeypatch.setattr(sockets, "current", lambda: found)
    owner = ownership.owner.Owner()
    monkeypatch.setattr(ownership, "current", lambda: owner)
    monkeypatch.setattr(live, "overview", Broken)
    monkeypatch.setattr(me.standing, "current", Broken)
    monkeypatch.setattr(Live, "_check", lambda self: asyncio.sleep(0))
    opened = []

    def open_socket(consumer):
        came, told = asyncio.Queue(), asyncio.Queue()
        came.put_nowait({"type": "websocket.connect"})
        scope = {"type": "websocket", "user": Watcher(), "session_key": "s" * 32}
        opened.append(asyncio.create_task(consumer.as_asgi()(scope, came.get, told.put)))
        return came, told

    yield open_socket
    for task in opened:
        task.cancel()
    await asyncio.gather(*opened, return_exceptions=True)


async def next_of(told, kind):
    async with asyncio.timeout(60):
        while (message := await told.get())["type"] != kind:
            pass
    return message


async def test_the_live_page_is_told_to_come_again_when_the_look_at_what_runs_fails(said, caplog):
    _, told = said(Live)
    closed = await next_of(told, "websocket.close")
    assert (closed["code"], closed["reason"]) == (1011, "the server failed, connect again")
    assert "what a page is told broke off" in caplog.text
    assert "KeyError" in caplog.text


async def test_a_page_whose_writing_fails_is_told_to_come_again(said, monkeypatch):
    monkeypatch.setattr(Me, "_say", lambda self, message: self._waiting.update({None: None}) or self.woken.set())
    monkeypatch.setattr(Me, "send", lambda self, text: json.loads(text))
    _, told = said(Me)
    assert (await next_of(told, "websocket.close"))["code"] == 1011


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("stop", {"type": "refused", "response": RESPONSE, "code": "unavailable"}),
        ("reading", {"type": "not_reading", "response": RESPONSE, "code": "unavailable"}),
    ],
)
async def test_what_fails_for_a_reason_that_nobody_thought_of_is_answered(said, monkeypatch, caplog, asked, answered):
    monkeypatch.setattr(me.responses, "get", lambda *_: 1 / 0)
    came, told = said(Me)
    await next_of(told, "websocket.send")
    came.put_nowait({"type": "websocket.receive", "text": json.dumps({"type": asked, "response": RESPONSE})})
    answer = json.loads((await next_of(told, "websocket.send"))["text"])
    assert answer == answered
    assert "ZeroDivisionError" in caplog.text


async def test_what_runs_beside_begins_anew_after_a_fault_and_ends_with_its_process(monkeypatch, caplog):
    monkeypatch.setattr(beside, "AGAIN_S", 0.01)
    begun, third = [], asyncio.Event()

    async def work(name):
        begun.append(name)
        if len(begun) < 3:
            raise KeyError(name)
        third.set()
        await asyncio.Event().wait()

    before, running = asyncio.all_tasks(), Beside()
    running.run(partial(work, "sweep"))
    async with asyncio.timeout(60):
        await third.wait()
    assert begun == ["sweep"] * 3
    assert caplog.text.count("work broke off and begins anew") == 2
    running.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
