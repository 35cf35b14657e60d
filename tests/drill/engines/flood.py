"""Owns the part in which more ask than an engine can take: who is sent away is told when to come, and that is right."""

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from tests.drill.engines.findings import Finding
from tests.drill.engines.gauges import until
from tests.drill.engines.ledger import EnginesLedger
from tests.drill.engines.stage import ANSWER_S, Stage

SLOTS, QUEUE = 8, 50
TOKENS, RATE = 40, 150


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request came to; ``told_s`` is its Retry-After where there was one."""

    status: int
    told_s: int | None
    is_served: bool


class Pace:
    """The engine's own time, in answers: it stands still when the engine does, as any process may on a busy machine."""

    def __init__(self, each_s: float):
        self._each_s = each_s
        self._served = self._under_way = 0
        self._changed = asyncio.Condition()

    def began(self) -> None:
        self._under_way += 1

    async def is_over(self, is_served: bool) -> None:
        async with self._changed:
            self._under_way -= 1
            self._served += is_served
            self._changed.notify_all()

    async def passes(self, seconds: float) -> None:
        """So long, and so many answers as the engine gives in that time, unless it has no more to do."""
        until = self._served + seconds / self._each_s
        await asyncio.sleep(seconds)
        async with self._changed:
            await self._changed.wait_for(lambda: self._served >= until or not self._under_way)


async def too_many_ask(stage: Stage, requests: int = 200) -> list[Finding]:
    """So many at once on one engine of eight slots, with a queue of fifty."""
    engine = stage.fault(rate=RATE, slots=SLOTS)
    stage.register("flood", "llamacpp", [engine.url], slots=SLOTS, context_tokens=8192)
    ledger = EnginesLedger(stage, "h", "fault server")
    await ledger.open()
    async with stage.web() as web:
        paced_at = time.monotonic()
        await asyncio.gather(*[_ask(stage, web) for _ in range(SLOTS)])  # so that its pace is known
        known_s = (time.monotonic() - paced_at) / SLOTS
        returns: list[asyncio.Task[Asked]] = []
        pace = Pace(known_s)
        asking = [asyncio.create_task(_ask_once_more(stage, web, pace, returns)) for _ in range(requests)]
        # At once: nobody is served before the last has asked, however long a busy machine takes to ask.
        engine.child.popen.send_signal(signal.SIGSTOP)
        try:
            await until(_all_have_asked(stage, returns, requests), ANSWER_S, "the last of them")
        finally:
            engine.child.popen.send_signal(signal.SIGCONT)
        began_at = time.monotonic()
        first = await asyncio.gather(*asking)
        taken = [asked for asked in first if asked.status == 200]
        # A machine that was busy before told the site of a slower pace.
        each_s = max(known_s, (time.monotonic() - began_at) / max(1, len(taken)))
        later = await asyncio.gather(*returns)
    compared = await ledger.compared(["flood-0"], "its books", exact=True)
    engine.kill()
    refused = [asked for asked in first if asked.status != 200]
    told = sorted(asked.told_s or 0 for asked in refused)
    # The n-th who is refused could be served when those before it had been, at the pace that was seen.
    real = [(len(taken) + nth) * each_s for nth in range(1, len(refused) + 1)]
    worst = max((said / wait for said, wait in zip(told, real, strict=True)), default=0.0)
    served = sum(asked.is_served for asked in later)
    statuses = sorted({asked.status for asked in refused})
    did = f"{requests} requests at {SLOTS} slots and a queue of {QUEUE}"
    return [
        Finding(
            "e", "fault server", did, f"{len(taken)} taken and served, {len(refused)} refused with {statuses}",
            "the rest get 503 with Retry-After",
            all(asked.is_served for asked in taken) and statuses == [503] and all(told)
            and SLOTS + QUEUE <= len(taken) < SLOTS + QUEUE + 2 * SLOTS,
        ),
        Finding(
            "e", "fault server", "they come back after their Retry-After",
            f"{served} of {len(refused)} served ({100 * served / max(1, len(refused)):.0f} %)", "80 % or more",
            served >= 0.8 * len(refused) > 0,
        ),
        Finding(
            "e", "fault server", f"they were told {told[:1]}…{told[-1:]} s",
            f"at worst {worst:.2f} of the real wait", "nobody more than twice the real wait", 0 < worst <= 2,
        ),
        compared,
    ]  # fmt: skip


def _all_have_asked(stage: Stage, returns: Sequence[asyncio.Task[Asked]], requests: int):
    async def asked() -> bool:
        taken = "SELECT COUNT(*) FROM streaming_response WHERE model = 'flood' AND end_state IS NULL"
        ((count,),) = await asyncio.to_thread(stage.one.rows, taken)
        return count + len(returns) >= requests

    return asked


async def _ask_once_more(
    stage: Stage, web: aiohttp.ClientSession, pace: Pace, returns: list[asyncio.Task[Asked]]
) -> Asked:
    """Ask; who is refused comes back, and ``returns`` takes that."""
    asked = await _ask_at(pace, stage, web)
    if asked.told_s is not None:
        returns.append(asyncio.create_task(_come_back(stage, web, pace, asked.told_s)))
    return asked


async def _ask_at(pace: Pace, stage: Stage, web: aiohttp.ClientSession) -> Asked:
    pace.began()
    asked = await _ask(stage, web)
    await pace.is_over(asked.is_served)
    return asked


async def _ask(stage: Stage, web: aiohttp.ClientSession) -> Asked:
    """Ask once."""
    body = {
        "model": "flood", "stream": True, "max_tokens": TOKENS, "messages": [{"role": "user", "content": "hi"}],
    }  # fmt: skip
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    async with web.post(f"{stage.one.url}/v1/chat/completions", json=body, timeout=timeout) as answer:
        told = answer.headers.get("Retry-After")
        text = (await answer.read()).decode()
    return Asked(answer.status, int(told) if told else None, text.rstrip().endswith("[DONE]"))


async def _come_back(stage: Stage, web: aiohttp.ClientSession, pace: Pace, told_s: int) -> Asked:
    await pace.passes(told_s)
    return await _ask_at(pace, stage, web)
