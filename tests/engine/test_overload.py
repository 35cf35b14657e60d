"""More requests than an engine can take: those who are sent away are told when to come back, and that is right."""

import asyncio

import pytest

from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer
from streaming.models import Engine
from streaming.ownership.ask import Ask, Refused
from streaming.ownership.start import check, start
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.policy import parse_policy
from streaming.store import threads
from tests.engine.conftest import save
from tests.fault_engine import FaultEngine

REQUESTS, SLOTS, QUEUE = 200, 8, 50
ANSWER_TOKENS, TOKENS_PER_S = 60, 200


@pytest.fixture(autouse=True)
def _database(transactional_db, settings):
    """Other threads write here."""
    settings.MAX_QUEUED_PER_ENGINE = QUEUE


@pytest.fixture
async def engine(tmp_path):
    async with FaultEngine(rate=TOKENS_PER_S, slots=SLOTS, context=1000).serving() as server:
        tokenizer = str(save(byte_tokenizer(), tmp_path / "m", CHATML))
        fields = {"kind": "llamacpp", "model": "m", "tokenizer": tokenizer, "context_tokens": 1000, "slots": SLOTS}
        await threads.write(lambda: Engine.objects.create(name="e", url=server.url, **fields))
        yield server


def now():
    return asyncio.get_running_loop().time()


async def asked(bench):
    """The response, or the refusal."""
    ask = Ask(
        user_id=bench.user.pk, purpose="api", dialect=OPENAI_CHAT, stream=True, model="m", max_tokens=ANSWER_TOKENS,
        messages=[{"role": "user", "content": "hi"}], policy=parse_policy("background", 3600),
    )  # fmt: skip
    try:
        return (await start(bench.owner, ask, await check(bench.owner, ask), now()))[0]
    except Refused as refused:
        return refused


async def served(bench, response):
    return (await bench.ended(response)).end_state == "completed"


async def comes_back(bench, refused, refused_at):
    await asyncio.sleep(max(0.0, refused_at + refused.retry_after_s - now()))
    again = await asked(bench)
    return not isinstance(again, Refused) and await served(bench, again)


@pytest.mark.slow
async def test_of_those_who_come_back_when_they_were_told_to_nearly_all_are_served(bench, engine):
    warm = [await asked(bench) for _ in range(SLOTS)]
    assert all(await asyncio.gather(*[served(bench, response) for response in warm]))
    began_at = now()
    answers = await asyncio.gather(*[asked(bench) for _ in range(REQUESTS)])
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    taken = [answer for answer in answers if not isinstance(answer, Refused)]
    assert SLOTS + QUEUE <= len(taken) < SLOTS + QUEUE + SLOTS, "some may have been served meanwhile"
    later = [asyncio.create_task(comes_back(bench, one, now())) for one in refused]
    assert all(await asyncio.gather(*[served(bench, response) for response in taken]))
    each_s = (now() - began_at) / len(taken)
    came_back = await asyncio.gather(*later)
    assert sum(came_back) >= 0.8 * len(refused)
    told = sorted(one.retry_after_s for one in refused)
    # The n-th who is refused could be served when those before it had been, at the pace that was measured.
    real = [(len(taken) + nth) * each_s for nth in range(1, len(refused) + 1)]
    assert all(said <= 2 * wait for said, wait in zip(told, real, strict=True))
    assert all(said >= wait / 4 for said, wait in zip(told, real, strict=True)), "nor is anybody sent round in circles"
