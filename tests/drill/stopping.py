"""Owns a person's stop: at which process, by id or by key, again until somebody answers. Judges nothing."""

import asyncio
import random
from collections.abc import Sequence

import aiohttp

from tests.drill.client import LOST, TRY_AGAIN, Person
from tests.drill.records import StopRecord


async def stop(person: Person, web: aiohttp.ClientSession, urls: Sequence[str], give_up_s: float) -> StopRecord:
    """Stop what the person asked for, in the question's way, until somebody answers."""
    question = person.record.question
    assert question.stop
    record = StopRecord(question)
    chance = random.Random(question.seed + 1)
    nth = question.first if question.stop.way == "first" else question.first + 1
    try:
        async with asyncio.timeout(give_up_s):
            await asyncio.sleep(question.stop.after_s)
            if question.stop.way != "key":
                await person.known.wait()
            while record.answer is None and not record.trouble:
                await _ask_to_stop(record, person, web, urls[nth % len(urls)])
                nth = chance.randrange(len(urls))
                await asyncio.sleep(chance.uniform(0.1, 0.5))
    except TimeoutError:
        pass
    return record


async def _ask_to_stop(record: StopRecord, person: Person, web: aiohttp.ClientSession, url: str) -> None:
    assert record.question.stop
    by_key = record.question.stop.way == "key"
    path = "/v1/responses/cancel" if by_key else f"/v1/responses/{person.record.response_id}/cancel"
    headers = {"Idempotency-Key": record.question.key} if by_key else {}
    try:
        async with web.post(url + path, headers=headers, timeout=aiohttp.ClientTimeout(total=10)) as answer:
            if answer.status == 200:
                record.answer = await answer.json()
            elif answer.status not in TRY_AGAIN:
                record.trouble = f"{record.question.key}: a stop was answered {answer.status}"
    except LOST:
        return
