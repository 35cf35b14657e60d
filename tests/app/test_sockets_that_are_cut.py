"""A socket whose application is cut off, or breaks, leaves nothing behind. Costs about 1 s."""

import asyncio
from contextlib import suppress

import pytest

from streaming import ownership
from streaming.consumers import me, sockets
from streaming.consumers.live import Live
from streaming.consumers.me import Me

# Channels looks after the connection of a thread that other tests may have left open: forbidden, it ends the socket.
pytestmark = pytest.mark.django_db


class Watcher:
    """The user of a socket."""

    pk = 7


class Hangs:
    """A database that does not answer."""

    async def begin(self, user_id):
        await asyncio.Event().wait()


class Breaks:
    """A fault of ours."""

    async def begin(self, user_id):
        raise RuntimeError("not a database's")


@pytest.fixture
def here(monkeypatch):
    """The sockets of a process of its own."""
    found = sockets.Sockets(most=9, most_per_user=1)
    monkeypatch.setattr(sockets, "current", lambda: found)
    return found


async def cut(consumer) -> None:
    """Open a socket, and end its application as the server does when the connection has long been gone."""
    came: asyncio.Queue = asyncio.Queue()
    came.put_nowait({"type": "websocket.connect"})
    scope = {"type": "websocket", "user": Watcher(), "session_key": "s" * 32}
    before = asyncio.all_tasks()

    async def send(message):
        await asyncio.sleep(0)

    task = asyncio.create_task(consumer.as_asgi()(scope, came.get, send))
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError, RuntimeError):
        await task
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before, "something of the socket runs on"


@pytest.mark.parametrize(("consumer", "database"), [(Me, Hangs()), (Me, Breaks()), (Live, None)])
async def test_an_application_that_is_cut_off_or_breaks_gives_its_place_back(here, monkeypatch, consumer, database):
    monkeypatch.setattr(me.standing, "current", lambda: database)
    monkeypatch.setattr(Live, "_check", lambda self: asyncio.Event().wait())
    owner = ownership.owner.Owner()
    monkeypatch.setattr(ownership, "current", lambda: owner)
    for _ in range(3):
        await cut(consumer)
        assert len(here) == 0
        assert owner.changes.followed == []
