"""On the loop of the real server what is due at once has no timer: whoever asks its handle for the time fails."""

import asyncio

import uvloop

from streaming.journal import Journal, Tail
from streaming.protocol.events import TEXT, Draft
from streaming.relay.watch import Watch
from streaming.store import creation, log
from streaming.store.creation import NewResponse

SOON_S = 0.0003
GAP_S = 0.02


def test_a_timer_that_is_nearly_due_is_no_obstacle_to_another():
    async def rung():
        rings = asyncio.Queue()
        watch = Watch(rings.put_nowait)
        watch.start("soon", SOON_S)
        watch.start("sooner", 0)
        watch.start("late", 60)
        names = {await rings.get(), await rings.get()}
        watch.close()
        return names

    assert uvloop.run(rung()) == {"soon", "sooner"}


def test_a_commit_that_is_nearly_due_takes_what_comes_meanwhile(user):
    asked = {"purpose": "api", "dialect": "openai_chat", "model": "m", "policy": "background", "stream": True}
    new = NewResponse(user_id=user.pk, request={}, prompt_ids=(), owner="", **asked)
    creation.create(new)

    async def stored():
        loop = asyncio.get_running_loop()
        journal = Journal(gap_s=GAP_S)
        tail = Tail(new.id, 1, 0.0)
        for nth in range(20):
            started = loop.time()
            journal.append(tail, [Draft(TEXT, {"text": "a"})])
            assert await journal.settled()
            while loop.time() < started + GAP_S - SOON_S + nth * 0.00002:
                pass
            journal.append(tail, [Draft(TEXT, {"text": "b"})])
            journal.append(tail, [Draft(TEXT, {"text": "c"})])
            assert await journal.settled()
        await journal.close()

    uvloop.run(stored())
    assert "".join(event.payload["text"] for event in log.read(new.id)) == "abc" * 20
