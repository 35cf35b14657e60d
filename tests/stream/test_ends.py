"""Every way a response can end: one recorded end, the engine freed, the text kept."""

import asyncio
import json
import random
from collections import Counter

import pytest
from django.db.models import F

from streaming.models import Response
from streaming.ownership.stop import stop
from streaming.protocol.end_state import END_STATES
from streaming.store import threads
from tests.stream.conftest import DEADLINE_S, frames_text, text_of
from tests.stream.test_a_response_from_question_to_end import read

ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.002}


async def first_text(bench, response, tail):
    """A reader that has seen the first event; it stays attached."""
    reader = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await reader.first()
    return reader


async def checked(bench, response, engine):
    """The ended row, after the laws that hold for every end."""
    row, events = await bench.ended(response), await bench.log(response)
    assert row.state == "ended"
    assert row.end_state in END_STATES
    assert [event.kind for event in events].count("ended") == 1
    assert events[-1].kind == "ended"
    assert events[-1].payload["end_state"] == row.end_state
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert text_of(events) == row.output_text
    assert row.delivered_tokens <= row.sent_tokens <= row.generated_tokens
    assert engine.running.total() == 0
    return row


async def test_stop_aborts_the_engine_and_keeps_the_text(bench, engine):
    response, tail = await bench.ask(ENDLESS)
    reader = await first_text(bench, response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await stop(bench.owner, await bench.row(response), "api")
    row = await checked(bench, response, engine)
    assert (row.end_state, row.end_reason, row.finish_reason) == ("cancelled", "api", None)
    assert row.output_text.startswith("tick ")
    assert row.abort_proven is True
    assert row.stop_ms >= 0
    reader.close()


async def test_stop_before_the_first_token_and_a_second_stop_are_alike(bench, engine):
    response, _ = await bench.ask({"outputs": [{"gate": "never"}]})
    row = await bench.row(response)
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(stop(bench.owner, row, "user"), stop(bench.owner, row, "user"))
        await stop(bench.owner, await bench.row(response), "api")
    row = await checked(bench, response, engine)
    assert (row.end_state, row.end_reason, row.output_text) == ("cancelled", "user", "")


async def test_stop_while_queued_never_reaches_the_engine(bench, engine):
    running = [await bench.ask({"outputs": [{"gate": "g"}]}) for _ in range(4)]
    response, _ = await bench.ask(ENDLESS)
    await engine.until(lambda e: len(e.requests) == 4)
    async with asyncio.timeout(DEADLINE_S):
        await stop(bench.owner, await bench.row(response), "user")
    engine.open_gate("g")
    for other, _tail in running:
        assert (await bench.ended(other)).end_state == "completed"
    assert (await checked(bench, response, engine)).end_state == "cancelled"
    assert len(engine.requests) == 4


async def test_a_stop_without_proof_ends_all_the_same_and_says_so(bench, settings, row):
    from streaming.engine.registry import engine_for
    from streaming.store import threads

    settings.STOP_PROOF_S = 0.05
    row.options = {"abort_proof": False}
    await threads.run(row.save)
    await bench.owner.pool.refresh(force=True)
    response, tail = await bench.ask(ENDLESS)
    reader = await first_text(bench, response, tail)
    await stop(bench.owner, await bench.row(response), "user")
    ended = await checked(bench, response, engine_for(row))
    assert (ended.end_state, ended.abort_proven) == ("cancelled", False)
    reader.close()


async def test_the_last_reader_of_an_abort_response_frees_the_engine_by_leaving(bench, engine):
    response, tail = await bench.ask(ENDLESS, policy="abort")
    one = await first_text(bench, response, tail)
    two = bench.reader(response, tail)
    one.close()
    assert bench.owner.relay(response.id) is not None
    two.close()
    row = await checked(bench, response, engine)
    assert (row.end_state, row.end_reason) == ("abandoned", "disconnected")


async def test_a_grace_response_waits_for_a_reader_to_come_back(bench, engine):
    response, tail = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}]}, policy="grace=30")
    reader = await first_text(bench, response, tail)
    reader.close()
    assert tail.readers == 0
    again = bench.reader(response, tail)
    engine.open_gate("g")
    row = await checked(bench, response, engine)
    assert (row.end_state, row.output_text) == ("completed", "ab")
    again.close()


async def test_a_grace_response_ends_abandoned_when_its_grace_is_over(bench, engine):
    response, tail = await bench.ask(ENDLESS, policy="grace=0.05")
    reader = await first_text(bench, response, tail)
    reader.close()
    assert (await checked(bench, response, engine)).end_state == "abandoned"


async def test_the_pages_goodbye_shortens_the_grace(bench, engine):
    response, tail = await bench.ask(ENDLESS, policy="grace=3000")
    reader = await first_text(bench, response, tail)
    bench.owner.relay(response.id).leaving(0.05)
    reader.close()
    assert (await checked(bench, response, engine)).end_state == "abandoned"


async def test_a_goodbye_is_forgotten_when_the_reader_comes_back(bench, engine):
    response, tail = await bench.ask(ENDLESS, policy="grace=3000")
    reader = await first_text(bench, response, tail)
    relay = bench.owner.relay(response.id)
    relay.leaving(0.01)
    reader.close()
    again = bench.reader(response, tail)
    again.close()
    seen = engine.outputs_given
    await engine.until(lambda e: e.outputs_given > seen + 30)
    assert bench.owner.relay(response.id) is relay
    await stop(bench.owner, await bench.row(response), "user")


async def test_nobody_reading_is_bounded_in_tokens(bench, engine, settings):
    settings.UNATTENDED_TOKENS = 50
    response, _ = await bench.ask(ENDLESS, policy="background")
    row = await checked(bench, response, engine)
    assert (row.end_state, row.end_reason) == ("abandoned", "disconnected")
    assert 50 < row.generated_tokens <= 60


@pytest.mark.parametrize(
    ("fault", "end_state", "end_reason"),
    [
        ("error", "errored", "upstream_error"),
        ("protocol", "errored", "upstream_protocol"),
        ("abort", "errored", "engine_aborted"),
        ("raise", "errored", "internal"),
        ("lost", "truncated", "upstream_lost"),
    ],
)
@pytest.mark.parametrize("after", [0, 3])
async def test_an_engines_fault_is_never_a_normal_end(bench, engine, fault, end_state, end_reason, after):
    script = {"outputs": [{"text": "tick "}], "repeat": 9, "fault": {"kind": fault, "after": after, "times": 9}}
    response, _ = await bench.ask(script)
    row = await checked(bench, response, engine)
    assert (row.end_state, row.end_reason, row.finish_reason) == (end_state, end_reason, None)
    assert row.output_text == "tick " * after
    assert row.engine_id is not None
    assert row.queue_ms is not None
    assert row.error_message
    assert "Traceback" not in row.error_message


@pytest.mark.parametrize(
    ("setting", "timer", "script"),
    [
        ("TTFT_TIMEOUT_S", "ttft", {"outputs": [{"gate": "never"}]}),
        ("IDLE_TIMEOUT_S", "idle", {"outputs": [{"text": "a"}, {"gate": "never"}]}),
        ("TOTAL_TIMEOUT_S", "total", ENDLESS),
    ],
)
async def test_each_timer_ends_with_its_own_reason(bench, engine, settings, setting, timer, script):
    setattr(settings, setting, 0.1)
    response, _ = await bench.ask(script)
    row = await checked(bench, response, engine)
    assert (row.end_state, row.end_reason) == ("timed_out", timer)
    assert row.abort_proven is True


async def test_the_queue_timer_ends_what_never_got_a_slot(bench, engine, settings):
    running = [await bench.ask({"outputs": [{"gate": "g"}]}) for _ in range(4)]
    await engine.until(lambda e: len(e.requests) == 4)
    settings.QUEUE_TIMEOUT_S = 0.1  # of what is asked from here on: those that run have their slots
    response, _ = await bench.ask("hello")
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason, row.engine_id) == ("timed_out", "queue", None)
    engine.open_gate("g")
    for other, _tail in running:
        await bench.ended(other)


SHORT = {"outputs": [{"text": "x"}] * 20}
RACES = 1000
RACERS = 4
#: What is noted once more when a reader has taken the rest after the end.
NOTED_LATER = {"delivered_tokens", "ttft_ms"}


async def at_some_moment(chance) -> None:
    """Before the first output, amid them, or while the end is being stored."""
    if chance.random() < 0.5:
        for _ in range(chance.randrange(120)):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(chance.uniform(0, 0.012))


async def race(bench, chance) -> str:
    """A response that is stopped at some moment and read meanwhile; returns its end, after looking at all of it."""
    response, tail = await bench.ask(SHORT)
    reading = asyncio.create_task(read(bench.reader(response, tail)))
    await at_some_moment(chance)
    # A caller may have looked at the row long before it asks.
    asked = await bench.row(response) if chance.random() < 0.3 else response
    await stop(bench.owner, asked, "user")
    answered = described_fields(await bench.row(response))
    row, events, shown = await bench.ended(response), await bench.log(response), await reading
    assert answered == described_fields(row)
    assert row.end_state in {"completed", "cancelled"}
    (ended,) = [event for event in events if event.kind == "ended"]
    assert ended is events[-1]
    assert [event.seq for event in events] == list(range(1, row.last_seq + 1))
    assert (ended.payload["end_state"], ended.payload["end_reason"]) == (row.end_state, row.end_reason)
    assert text_of(events) == row.output_text == frames_text(shown)
    assert (b"[DONE]" in shown) == (row.end_state == "completed")
    assert sum(event.token_count for event in events) == row.sent_tokens == ended.payload["usage"]["sent_tokens"]
    assert row.generated_tokens == ended.payload["usage"]["generated_tokens"]
    assert len(row.output_text) == row.completion_tokens <= row.sent_tokens <= row.generated_tokens <= 20
    assert row.end_state == "cancelled" or row.output_text == "x" * 20
    return row.end_state


def described_fields(row) -> dict:
    return {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if f.attname not in NOTED_LATER}


async def test_stop_against_finish_at_many_offsets_gives_one_end_each(bench, engine):
    chance = random.Random(70)
    ends: Counter[str] = Counter()

    async def racer() -> None:
        for _ in range(RACES // RACERS):
            ends[await race(bench, chance)] += 1

    await asyncio.gather(*(racer() for _ in range(RACERS)))
    assert ends.total() == RACES
    assert min(ends["completed"], ends["cancelled"]) >= 50
    assert engine.running.total() == 0
    assert bench.owner.running == []
    assert await bench.owner.journal.settled()
    late = Response.objects.filter(delivered_tokens__lt=F("sent_tokens"))
    assert await threads.run(late.count) == 0


async def test_the_ended_event_tells_what_the_row_tells(bench, engine):
    response, tail = await bench.ask(ENDLESS)
    reader = await first_text(bench, response, tail)
    await stop(bench.owner, await bench.row(response), "user")
    row, events = await bench.ended(response), await bench.log(response)
    payload = events[-1].payload
    assert json.loads(json.dumps(payload)) == payload
    assert payload["usage"]["generated_tokens"] == row.generated_tokens
    assert payload["usage"]["sent_tokens"] == row.sent_tokens
    assert payload["stop"]["generated_tokens"] == row.generated_tokens
    assert payload["stop"]["abort_proven"] is True
    reader.close()
