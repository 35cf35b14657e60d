"""Before an answer has begun another engine is asked; after that nobody is, and what was refused is asked of nobody."""

import asyncio

import pytest

from streaming.models import Engine
from streaming.store import threads
from tests.engine.answers import added, asked

GONE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here."""


async def test_an_engine_that_is_gone_costs_nobody_an_answer(bench, tmp_path, second):
    await added(tmp_path, "llamacpp", GONE, second.url)
    rows = [row for row, _ in await asyncio.gather(*[asked(bench, max_tokens=20) for _ in range(8)])]
    assert {(row.end_state, row.completion_tokens) for row in rows} == {("completed", 20)}
    assert {row.engine_id for row in rows} == {await threads.run(lambda: Engine.objects.get(url=second.url).pk)}
    assert second.requests_total == 8


@pytest.mark.parametrize("control", [{"status": 503}, {"status": 429}, {"eof_after": 0}, {"reset_after": 0}])
async def test_one_that_fails_before_the_first_token_neither(bench, tmp_path, first, second, control):
    first.set_control(control)
    await added(tmp_path, "llamacpp", first.url, second.url)
    rows = [(await asked(bench))[0] for _ in range(3)]
    assert {row.end_state for row in rows} == {"completed"}
    assert second.requests_total == 3


async def test_an_engine_that_comes_back_in_time_is_asked_again(bench, tmp_path, first):
    first.set_control({"status": 503})
    await added(tmp_path, "llamacpp", first.url)
    answer = asyncio.create_task(asked(bench))
    async with asyncio.timeout(60):
        while first.requests_total < 2:
            await asyncio.sleep(0.005)
    first.set_control({})
    row, _ = await answer
    assert row.end_state == "completed"
    assert first.requests_total == 3
    assert len({body["seed"] for body in first.bodies}) == 3, "each attempt has a name of its own"


async def test_it_is_not_asked_for_ever(bench, tmp_path, first):
    first.set_control({"status": 503})
    await added(tmp_path, "llamacpp", first.url)
    row, _ = await asked(bench)
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
    tmp_path,
    first,
    second,
    control,
    end_state,
):
    first.set_control(control)
    second.set_control(control)
    await added(tmp_path, "llamacpp", first.url, second.url)
    row, _ = await asked(bench)
    assert row.end_state == end_state
    assert first.requests_total + second.requests_total == 1
