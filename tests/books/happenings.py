"""Owns what can happen to an answer in the counting matrix: what its engine does, what is done to it. Asks nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from django.test import AsyncClient

from streaming.models import Response
from streaming.ownership.adoption import adopt_or_end
from streaming.ownership.owner import Owner
from streaming.ownership.stop import stop
from streaming.pool import Wish
from streaming.reader import Reader
from streaming.store import access, orphans, threads
from tests.fault_engine import FaultEngine
from tests.stream.conftest import DEADLINE_S, Bench

MOST, CUT = 20, 12
SLOTS = 9
#: Of a timer before which nothing has to come.
AT_ONCE_S = 0.1
ADOPTED = "another process carries it on"


@dataclass(frozen=True, slots=True)
class Asked:
    """One answer under way, of which CUT tokens are stored. ``reader`` is who asked."""

    bench: Bench
    server: FaultEngine
    response: Response
    reader: Reader
    streamed: bool


Deed = Callable[[Asked], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Happening:
    """``control`` of the fault engine, or ``fault`` of the scripted one; then the row.

    ``end`` is state, reason and finish_reason. Of ``made`` tokens a reader of a stream takes ``streamed``, a caller
    who waits for the whole ``whole``. ``vllm_counts``: an engine that answers an abort with its count has said it.
    """

    end: str
    made: int
    streamed: int
    whole: int
    control: Mapping[str, Any] = field(default_factory=dict)
    fault: str | None = None
    deed: Deed | None = None
    timers: Mapping[str, float] = field(default_factory=dict)
    is_full: bool = False
    in_conversation: bool = False
    vllm_counts: bool = False

    @property
    def script(self) -> dict[str, Any]:
        """The same for the scripted engine."""
        outputs = [{"text": "a"}] * (CUT if self.end.startswith("completed stop") else 2 * MOST)
        fault = {"fault": {"kind": self.fault, "after": min(self.made, CUT)}} if self.fault else {}
        return {"outputs": outputs, **fault}


@asynccontextmanager
async def full(bench: Bench, model: str) -> AsyncIterator[None]:
    """All slots of the model's engine are taken."""
    async with AsyncExitStack() as leases:
        for _ in range(SLOTS):
            await leases.enter_async_context(bench.owner.pool.lease(model, Wish()))
        yield


async def reads(reader: Reader, streamed: bool) -> None:
    """As the handover does: frame by frame, or all of it at once when it has ended well."""
    if streamed:
        async with aclosing(reader.frames()) as frames:
            async for _ in frames:
                pass
    else:
        events = await reader.all()
        if events and events[-1].payload.get("end_state") == "completed":
            reader.delivered_all(events)
    reader.close()


async def is_stopped(asked: Asked) -> None:
    await stop(asked.bench.owner, await asked.bench.row(asked.response), "api")


async def is_left(asked: Asked) -> None:
    asked.reader.close()


async def falls_silent(asked: Asked) -> None:
    """Its engine has said nothing for too long, now: what came before has come, however busy the machine is."""
    asked.bench.owner.relay(asked.response.id)._watch.start("idle", 0)


async def runs_out_of_time(asked: Asked) -> None:
    """Its last timer fires, now."""
    asked.bench.owner.relay(asked.response.id)._watch.start("total", 0)


async def is_superseded(asked: Asked) -> None:
    """By a new message in its conversation, as the page sends it; its answer comes from another engine."""
    page = AsyncClient()
    await page.aforce_login(asked.bench.user)
    path = f"/api/conversations/{asked.response.conversation_id}/messages"
    answer = await page.post(path, {"text": "Enough.", "model": "scripted"}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    answer.asgi_request.scope["handover"].close()


async def is_deleted(asked: Asked) -> None:
    key = await threads.write(access.issue_key, asked.bench.user, "deletes")
    headers = {"Authorization": f"Bearer {key}"}
    answer = await AsyncClient().delete(f"/v1/responses/{asked.response.id}", headers=headers)
    assert answer.status_code == 200, answer.content


async def loses_its_process(asked: Asked) -> None:
    """What it ran is let go of without an end, and somebody else ends it by what is stored."""
    relay = _let_go(asked)
    await threads.write(orphans.end_orphan, await asked.bench.row(relay), orphans.LOST)


async def is_adopted(asked: Asked) -> None:
    """What it ran is let go of without an end; another owner carries it on, and its reader comes back for all of it."""
    dead = _let_go(asked)
    async with asyncio.timeout(DEADLINE_S):
        await asked.bench.owner.ended(dead.id)
    assert await asked.bench.owner.journal.settled()
    asked.server.set_control({})
    successor = Bench(Owner(), asked.bench.user)
    await successor.owner.start()
    await adopt_or_end(successor.owner, await successor.row(dead), reader_waits=True)
    reader = successor.reader(dead, successor.owner.tail(dead.id))
    async with asyncio.timeout(DEADLINE_S):
        await reads(reader, asked.streamed)
    await successor.ended(dead)
    await successor.owner.drain(0)


def _let_go(asked: Asked) -> Response:
    relay = asked.bench.owner.relay(asked.response.id)
    relay.tail.released = True
    relay.tail.wake()
    relay.give_up()
    return asked.response


SILENT = {"control": {"stall_after": CUT}, "fault": "stall"}
TOLD = {**SILENT, "vllm_counts": True}
NEVER = {"control": {"prefill_s": 60}, "fault": "stall"}
HAPPENINGS = {
    "it reaches its limit": Happening("completed length length", MOST, MOST, MOST),
    "the model ends": Happening("completed stop stop", CUT, CUT, CUT, {"eos_after": CUT}),
    "the engine reports an error": Happening(
        "errored upstream_error -", CUT, CUT, 0, control={"error_after": CUT}, fault="error"
    ),
    "the engine sends garbage": Happening(
        "errored upstream_protocol -", CUT, CUT, 0, control={"garbage_after": CUT}, fault="protocol"
    ),
    "the connection ends": Happening(
        "truncated upstream_lost -", CUT, CUT, 0, control={"eof_after": CUT}, fault="lost"
    ),
    "no slot is free": Happening("timed_out queue -", 0, 0, 0, timers={"QUEUE_TIMEOUT_S": AT_ONCE_S}, is_full=True),
    "the engine never begins": Happening(
        "timed_out ttft -", 0, 0, 0, timers={"TTFT_TIMEOUT_S": AT_ONCE_S}, vllm_counts=True, **NEVER
    ),
    "the engine falls silent": Happening("timed_out idle -", CUT, CUT, 0, deed=falls_silent, **TOLD),
    "the whole takes too long": Happening("timed_out total -", CUT, CUT, 0, deed=runs_out_of_time, **TOLD),
    "somebody stops it": Happening("cancelled api -", CUT, CUT, 0, deed=is_stopped, **TOLD),
    "a new message supersedes it": Happening(
        "cancelled superseded -", CUT, CUT, 0, deed=is_superseded, in_conversation=True, **TOLD
    ),
    "it is deleted": Happening("cancelled deleted -", CUT, CUT, 0, deed=is_deleted, **TOLD),
    "the reader leaves": Happening("abandoned disconnected -", CUT, CUT, 0, deed=is_left, **TOLD),
    # What its readers took died with it.
    "its process is lost": Happening("truncated relay_lost -", CUT, 0, 0, deed=loses_its_process, **SILENT),
    ADOPTED: Happening(
        "completed length length", MOST, MOST, MOST, deed=is_adopted, **SILENT
    ),
}  # fmt: skip
