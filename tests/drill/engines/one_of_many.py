"""Owns the part in which some of many are stopped: the others stay exact, and a stopped one's key names it for ever."""

import asyncio

import aiohttp

from tests.drill.engines.findings import Finding
from tests.drill.engines.gauges import until
from tests.drill.engines.ledger import EnginesLedger
from tests.drill.engines.stage import ANSWER_S, Stage
from tests.drill.plan import Question

#: Five seconds: the first are still amid their answers when the last have begun, also on a busy machine.
TOKENS, RATE, EVERY = 100, 20, 10
LETTERS = "".join(chr(ord("a") + nth % 26) for nth in range(1, TOKENS + 1))


async def each_tenth_is_stopped(stage: Stage, answers: int = 100) -> list[Finding]:
    """Every tenth is stopped amid its answer; then all ask again with the keys they had."""
    engine = stage.fault(rate=RATE, slots=answers)
    stage.register("many", "vllm", [engine.url], slots=answers, context_tokens=8192)
    questions = [stage.question("many", fields={"max_tokens": TOKENS}) for _ in range(answers)]
    ledger = EnginesLedger(stage, "h", "fault server")
    await ledger.open()
    async with stage.web() as web:
        people = [stage.person(web, question) for question in questions]
        reading = asyncio.create_task(stage.read_all(people))
        await until(_has_begun(stage, questions), ANSWER_S, "the slowest answer")
        stops = await asyncio.gather(*[_stop(stage, web, question) for question in questions[::EVERY]])
        await reading
        asked_total = await _requests(web, engine.url)
        again = [stage.person(web, question) for question in questions]
        await stage.read_all(again)
        asked_again = await _requests(web, engine.url) - asked_total
    compared = await ledger.compared(["many-0"], f"its books, {answers // EVERY} aborts among them", exact=True)
    engine.kill()
    stopped, others = people[::EVERY], [person for nth, person in enumerate(people) if nth % EVERY]
    inexact = [person.record.text for person in others if person.record.text != LETTERS]
    torn = [person.record.text for person in stopped if not LETTERS.startswith(person.record.text)]
    unproven = [stop for stop in stops if not (stop["end_state"] == "cancelled" and stop["abort_proven"])]
    differ = [
        new.record.response_id
        for old, new in zip(people, again, strict=True)
        if (old.record.response_id, old.record.end_state, old.record.text)
        != (new.record.response_id, new.record.end_state, new.record.text)
    ]
    laws = stage.broken_laws([person.record for person in [*people, *again]])
    slowest_ms = max(stop["stop_ms"] or 0.0 for stop in stops)
    return [
        Finding(
            "f", "fault server", f"{len(stopped)} of {answers} stopped amid their answers",
            f"{len(others) - len(inexact)} of {len(others)} others exact, {len(stops) - len(unproven)} aborts proven"
            f" in at most {slowest_ms:.0f} ms, {len(laws)} breaches" + "".join(f"; {line}" for line in laws[:2]),
            "the others exact, the stopped proven", not (inexact or torn or unproven or laws),
        ),
        Finding(
            "f", "fault server", "all keys used again",
            f"{answers - len(differ)} of {answers} the same response, {asked_again} new requests to the engine",
            "the same responses, nothing generated", not differ and asked_again == 0,
        ),
        compared,
    ]  # fmt: skip


def _has_begun(stage: Stage, questions: list[Question]):
    async def asked() -> bool:
        return await asyncio.to_thread(stage.least_made, questions) >= 2

    return asked


async def _stop(stage: Stage, web: aiohttp.ClientSession, question: Question) -> dict:
    headers = {"Idempotency-Key": question.key}
    async with web.post(f"{stage.one.url}/v1/responses/cancel", headers=headers) as answer:
        stop = await answer.json()
    row = await asyncio.to_thread(stage.row_of, question)
    return {"end_state": stop["end_state"], "abort_proven": row["abort_proven"], "stop_ms": row["stop_ms"]}


async def _requests(web: aiohttp.ClientSession, url: str) -> int:
    async with web.get(f"{url}/_control") as answer:
        return (await answer.json())["requests_total"]
