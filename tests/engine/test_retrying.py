"""Before an answer has begun another engine is asked; after that nobody is, and what was refused is asked of nobody."""

import asyncio

import pytest

from streaming.models import Engine
from streaming.ownership.ask import Ask
from streaming.ownership.start import check, start
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.policy import parse_policy
from streaming.store import threads
from tests.engine.conftest import save
from tests.fault_engine import FaultEngine

GONE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here."""


@pytest.fixture
def tokenizer(tmp_path):
    from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer

    return str(save(byte_tokenizer(), tmp_path / "m", CHATML))


@pytest.fixture
async def second():
    async with FaultEngine(rate=2000, slots=4, context=1000).serving() as server:
        yield server


@pytest.fixture
def first(fault):
    fault.context = 1000
    return fault


async def added(tokenizer, *urls):
    def create():
        for nth, url in enumerate(urls):
            fields = {"kind": "llamacpp", "model": "m", "tokenizer": tokenizer, "context_tokens": 1000}
            Engine.objects.create(name=f"e{nth}", url=url, **fields)

    await threads.write(create)


async def asked(bench, max_tokens=20):
    ask = Ask(
        user_id=bench.user.pk, purpose="api", dialect=OPENAI_CHAT, stream=True, model="m", max_tokens=max_tokens,
        messages=[{"role": "user", "content": "hi"}], policy=parse_policy("background", 3600),
    )  # fmt: skip
    response, _ = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    return await bench.ended(response)


async def test_an_engine_that_is_gone_costs_nobody_an_answer(bench, tokenizer, second):
    await added(tokenizer, GONE, second.url)
    rows = await asyncio.gather(*[asked(bench) for _ in range(8)])
    assert {(row.end_state, row.completion_tokens) for row in rows} == {("completed", 20)}
    assert {row.engine_id for row in rows} == {await threads.run(lambda: Engine.objects.get(url=second.url).pk)}
    assert second.requests_total == 8


@pytest.mark.parametrize("control", [{"status": 503}, {"status": 429}, {"eof_after": 0}, {"reset_after": 0}])
async def test_one_that_fails_before_the_first_token_neither(bench, tokenizer, first, second, control):
    first.set_control(control)
    await added(tokenizer, first.url, second.url)
    rows = [await asked(bench) for _ in range(3)]
    assert {row.end_state for row in rows} == {"completed"}
    assert second.requests_total == 3


async def test_an_engine_that_comes_back_in_time_is_asked_again(bench, tokenizer, first):
    first.set_control({"status": 503})
    await added(tokenizer, first.url)
    answer = asyncio.create_task(asked(bench))
    async with asyncio.timeout(10):
        while first.requests_total < 2:
            await asyncio.sleep(0.005)
    first.set_control({})
    assert (await answer).end_state == "completed"
    assert first.requests_total == 3
    assert len({body["seed"] for body in first.bodies}) == 3, "each attempt has a name of its own"


async def test_it_is_not_asked_for_ever(bench, tokenizer, first):
    first.set_control({"status": 503})
    await added(tokenizer, first.url)
    row = await asked(bench)
    assert (row.end_state, row.end_reason, first.requests_total) == ("errored", "upstream_error", 3)


@pytest.mark.parametrize(
    ("control", "end_state"),
    [
        ({"status": 400}, "errored"),
        ({"status": 401}, "errored"),
        ({"error_after": 0}, "errored"),
        ({"garbage_after": 0}, "errored"),
        ({"error_after": 3}, "errored"),
    ],
)
async def test_a_refusal_an_error_and_what_has_begun_are_asked_of_nobody_else(
    bench,
    tokenizer,
    first,
    second,
    control,
    end_state,
):
    first.set_control(control)
    second.set_control(control)
    await added(tokenizer, first.url, second.url)
    row = await asked(bench)
    assert row.end_state == end_state
    assert first.requests_total + second.requests_total == 1
