"""Owns the part in which an engine is gone for a while: nobody loses an answer, and it is not trampled afterwards."""

import asyncio
import time

import aiohttp

from tests.drill.engines.deaths import SURVIVOR
from tests.drill.engines.findings import Finding
from tests.drill.engines.ledger import EnginesLedger
from tests.drill.engines.stage import ANSWER_S, Stage

CLIENTS = 40
TOKENS, RATE, SLOTS, OTHER_SLOTS = 20, 100, 64, 8
#: A pause doubles from failure to failure, so it can last as long as the engine was gone; and a while.
BACK_S = 25.0
#: From here on the limit is off, or nearly so.
LOOKED_AT = 20


async def engine_comes_back(stage: Stage, gone_s: float = 10.0) -> list[Finding]:
    """One of two dies and is there again on its port; 40 people ask and ask all the time."""
    model = "back"
    leaver, other = stage.fault(rate=RATE, slots=SLOTS), stage.fault(rate=RATE, slots=OTHER_SLOTS)
    for engine, slots, nth in ((leaver, SLOTS, 0), (other, OTHER_SLOTS, 1)):
        stage.register(f"{model}", "vllm", [engine.url], name=f"{model}-{nth}", slots=slots, context_tokens=8192)
    ledger = EnginesLedger(stage, "h", "fault server ×2")
    await ledger.open()
    over = asyncio.Event()
    async with stage.web() as web:
        asking = [asyncio.create_task(_ask_on(stage, web, model, over)) for _ in range(CLIENTS)]
        await asyncio.sleep(1)
        await asyncio.to_thread(leaver.kill)
        await asyncio.sleep(gone_s)
        leaver = await asyncio.to_thread(lambda: stage.fault(rate=RATE, slots=SLOTS, port=leaver.port))
        back_at = time.monotonic()
        arrivals = await _arrivals(web, leaver.url)
        after_s = time.monotonic() - back_at
        over.set()
        ends = [end for ends in await asyncio.gather(*asking) for end in ends]
    compared = await ledger.compared([f"{model}-0"], "the books of the one that was gone: its first life is not known")
    steady = await ledger.compared([f"{model}-1"], SURVIVOR, exact=True)
    leaver.kill()
    other.kill()
    failed = [end for end in ends if end != "completed"]
    trampled = [(there, begun) for there, begun in arrivals if there > 2**begun]
    asked = f"{len(ends)} answers by {CLIENTS} people"
    return [
        Finding(
            "d", "fault server ×2", f"one gone for {gone_s:g} s, then back; {asked}",
            f"{len(arrivals)} requests within {after_s:.1f} s of its return",
            f"it serves again within {BACK_S:g} s", len(arrivals) >= LOOKED_AT and after_s <= BACK_S,
        ),
        Finding(
            "d", "fault server ×2", "the first requests after its return",
            "at a time, after so many first tokens: "
            + ", ".join(f"{there} ({begun})" for there, begun in arrivals[:8]),
            "one alone, then at most 2^(first tokens) at a time", bool(arrivals) and not trampled,
        ),
        Finding("d", "fault server ×2", asked,
            "; ".join([f"{len(failed)} not completed", *map(str, failed[:3])]), "nobody loses one", not failed,
        ),
        compared,
        steady,
    ]  # fmt: skip


async def _ask_on(stage: Stage, web: aiohttp.ClientSession, model: str, over: asyncio.Event) -> list[str | None]:
    """One person's answers, one after another; their ends."""
    ends: list[str | None] = []
    while not over.is_set():
        person = stage.person(web, stage.question(model, fields={"max_tokens": TOKENS}))
        await person.read(0, ANSWER_S)
        ends.append(person.record.end_state)
    return ends


async def _arrivals(web: aiohttp.ClientSession, url: str) -> list[tuple[int, int]]:
    """What the engine that is back saw arrive, once there is enough to judge, or after BACK_S."""
    give_up_at = time.monotonic() + BACK_S
    while True:
        async with web.get(f"{url}/_arrivals") as answer:
            arrivals = [(there, begun) for there, begun in await answer.json()]
        if len(arrivals) >= LOOKED_AT or time.monotonic() > give_up_at:
            return arrivals
        await asyncio.sleep(0.05)
