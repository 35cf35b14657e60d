"""The account of a response's attempts: which engine made how many tokens, how that is known, and how each ended."""

import asyncio
from collections import Counter

import pytest

from streaming.ownership.start import check, start
from streaming.protocol.end_state import STOPPED, decide
from streaming.store import attempts, orphans, threads
from tests.engine.answers import TOKENS, added, ask_of, asked
from tests.engine.test_carrying_on_elsewhere import CUT
from tests.stream.conftest import until_stored


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here."""


def told(row, *names):
    return [tuple(attempt[name] for name in names) for attempt in row.attempts]


@pytest.mark.parametrize("kind", ["llamacpp", "vllm"])
async def test_an_answer_over_two_engines_says_what_each_made_and_what_is_only_a_lower_bound(
    bench, tmp_path, first, second, kind
):
    first.set_control({"reset_after": CUT})
    await added(tmp_path, kind, first.url, second.url)
    rows = [row for row, _ in await asyncio.gather(*[asked(bench) for _ in range(4)])]
    carried = [row for row in rows if len(row.attempts) > 1]
    assert carried
    for row in carried:
        assert told(row, "engine", "generated_tokens", "count", "ended") == [
            ("e0", CUT, "at_least", "upstream_lost"),
            ("e1", TOKENS - CUT, "exact", "length"),
        ]
        (before,), (after,) = told(row, "prompt_tokens")
        assert before == row.prompt_tokens
        assert after == before + CUT if kind == "vllm" else after > before + CUT, "it read what the other had made"
        assert told(row, "request_id") == [(f"{row.id}-1",), (f"{row.id}-1r2",)]
        for attempt in row.attempts:
            assert 0 <= attempt["first_output_ms"] <= attempt["duration_ms"]
    by_engine = await threads.run(attempts.generated_by_engine)
    made = Counter()
    for attempt in (attempt for row in rows for attempt in row.attempts):
        made[attempt["engine_id"]] += attempt["generated_tokens"]
    assert by_engine == made
    assert sum(by_engine.values()) == sum(row.generated_tokens for row in rows) == 4 * TOKENS


@pytest.mark.parametrize(("kind", "count"), [("llamacpp", "at_least"), ("vllm", "exact")])
async def test_a_stopped_attempt_is_counted_exactly_where_the_engine_says_it(bench, tmp_path, first, kind, count):
    first.set_control({"rate": 100})
    await added(tmp_path, kind, first.url)
    ask = ask_of(bench, max_tokens=900)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens >= 5)
    bench.owner.relay(response.id).stop(decide(None, STOPPED, "api"))
    row = await bench.ended(response)
    assert told(row, "ended", "count", "abort_proven") == [("api", count, True)]
    if kind == "vllm":
        assert row.generated_tokens == row.attempts[0]["generated_tokens"] == first.chunks_total
    else:
        assert 5 <= row.attempts[0]["generated_tokens"] <= first.chunks_total


async def test_an_engine_that_refuses_first_is_an_attempt_of_no_tokens(bench, tmp_path, first, second):
    first.set_control({"status": 503})
    second.set_control({"status": 503})
    await added(tmp_path, "llamacpp", first.url, second.url)
    failed, _ = await asked(bench)
    assert told(failed, "generated_tokens", "ended", "prompt_tokens") == [(0, "upstream_error", None)] * 3
    second.set_control({})
    row, _ = await asked(bench)
    assert row.end_state == "completed"
    assert told(row, "engine", "generated_tokens", "ended")[-1] == ("e1", TOKENS, "length")
    assert all(attempt["generated_tokens"] == 0 for attempt in row.attempts[:-1])


async def test_a_chat_endpoint_that_reports_nothing_gives_an_estimate(bench, tmp_path, first):
    first.set_control({"usage": "none"})
    await added(tmp_path, "openai", f"{first.url}/v1")
    row, _ = await asked(bench)
    assert told(row, "count", "prompt_tokens") == [("estimated", None)]
    first.set_control({})
    row, _ = await asked(bench)
    assert told(row, "count", "generated_tokens") == [("exact", TOKENS)]


async def test_what_a_dead_owner_left_is_known_by_its_engine_and_its_log(bench, tmp_path, first, second):
    first.set_control({"reset_after": CUT})
    second.set_control({"stall_after": 10})
    await added(tmp_path, "llamacpp", first.url, second.url)
    ask = ask_of(bench)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens == CUT + 10)
    assert await threads.write(orphans.end_orphan, await bench.row(response), orphans.LOST)
    row = await bench.row(response)
    assert told(row, "engine", "generated_tokens", "count", "ended") == [
        ("e0", CUT, "at_least", "upstream_lost"),
        ("e1", 10, "at_least", "relay_lost"),
    ]
    assert row.generated_tokens == CUT + 10


async def test_one_that_never_reached_an_engine_has_no_attempt(bench, tmp_path, first):
    await added(tmp_path, "llamacpp", first.url)
    ask = ask_of(bench)
    row = await check(bench.owner, ask)
    response, _ = await start(bench.owner, ask, row, asyncio.get_running_loop().time())
    bench.owner.relay(response.id).stop(decide(None, STOPPED, "api"))
    assert (await bench.ended(response)).attempts == []
