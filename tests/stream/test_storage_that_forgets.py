"""Storage that hangs, or comes back without what it had acknowledged: memory writes it again, or the answer ends."""

import asyncio

import pytest
from django.db import OperationalError

from streaming.journal import batch as batch_module
from streaming.journal.tail import KEEP_EVENTS
from streaming.models import ResponseEvent
from streaming.store import threads
from tests.stream.conftest import DEADLINE_S, text_of, until_stored
from tests.stream.test_a_response_from_question_to_end import read
from tests.stream.test_the_journal import locked_database, wait_for_storage

SAID = "".join(f"w{n} " for n in range(30))


@pytest.fixture
def unlucky(monkeypatch):
    """The next commit fails as it does when the database's process was killed."""
    real = batch_module.Batch._write_together
    failures = iter([OperationalError("server closed the connection unexpectedly")])

    def arm():
        def write(batch):
            for failure in failures:
                raise failure
            real(batch)

        monkeypatch.setattr(batch_module.Batch, "_write_together", write)

    monkeypatch.setattr("streaming.journal.journal.RETRY_S", 0.01)
    return arm


def gates(words: str, gate: str) -> list[str]:
    """One behind each word but the last, and that behind all."""
    return [*(f"{gate} {nth}" for nth in range(1, len(words.split()))), gate]


def saying(words: str, gate: str) -> dict:
    outputs = [{"text": word + " "} for word in words.split()]
    each = [step for output, name in zip(outputs, gates(words, gate), strict=True) for step in (output, {"gate": name})]
    return {"outputs": [*each, {"text": "end"}]}


async def said(bench, engine, words: str, gate: str):
    """A response that has said these words, each an event that a reader could have seen, and waits at a gate."""
    response, tail = await bench.ask(saying(words, gate))
    count = 0
    for word, name in zip(words.split(), gates(words, gate), strict=True):
        count += len(word) + 1
        await until_stored(tail, lambda t, count=count: t.sent_tokens == count)
        if name != gate:
            engine.open_gate(name)
    return response, tail


async def forget(response, after_seq: int) -> int:
    """Rows that were acknowledged are gone; returns how many."""
    rows = ResponseEvent.objects.filter(response_id=response.id, seq__gt=after_seq)
    return (await threads.write(rows.delete))[0]


async def test_what_readers_saw_is_written_again_also_of_answers_that_have_nothing_new_to_store(bench, engine, unlucky):
    silent, silent_tail = await said(bench, engine, SAID, "silent")
    talking, talking_tail = await said(bench, engine, SAID, "talking")
    before = [await bench.log(response) for response in (silent, talking)]
    for response, tail in ((silent, silent_tail), (talking, talking_tail)):
        assert await forget(response, tail.last_seq - 10) == 10
    unlucky()
    engine.open_gate("talking")
    assert (await bench.ended(talking)).output_text == SAID + "end"
    assert await bench.log(silent) == before[0]
    engine.open_gate("silent")
    assert (await bench.ended(silent)).output_text == SAID + "end"
    for response, known in zip((silent, talking), before, strict=True):
        events = await bench.log(response)
        assert events[: len(known)] == known
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_an_answer_of_which_more_was_lost_than_memory_holds_ends_with_what_the_log_has(bench, engine, unlucky):
    words = "".join(f"w{n} " for n in range(3 * KEEP_EVENTS))
    response, tail = await said(bench, engine, words, "g")
    assert tail.first_seq > 11
    await forget(response, after_seq=10)
    unlucky()
    engine.open_gate("g")
    row, events = await bench.ended(response), await bench.log(response)
    assert (row.end_state, row.end_reason, row.epoch) == ("errored", "storage", 2)
    assert [event.seq for event in events] == list(range(1, 12))
    assert text_of(events) == row.output_text
    assert words.startswith(row.output_text)


async def test_a_commit_that_hangs_for_too_long_is_as_one_that_fails(bench, engine):
    response, tail = await bench.ask({"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.01})
    silent, silent_tail = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}]})
    await until_stored(silent_tail, lambda t: text_of(t.events) == "a")
    reader = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await reader.first()
        await engine.until(lambda e: e.outputs_given > 5)
    with locked_database():
        wait_for_storage(bench.owner.journal, 0.5)
        data = await read(reader)
        async with asyncio.timeout(DEADLINE_S):
            await engine.until(lambda e: not any(n for r, n in e.running.items() if r.startswith(response.id)))
        assert not bench.owner.journal._in_flight.failed
    wait_for_storage(bench.owner.journal, DEADLINE_S)
    assert b"stream_detached" in data
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason) == ("errored", "storage")
    assert text_of(await bench.log(response)) == row.output_text
    engine.open_gate("g")
    assert (await bench.ended(silent)).output_text == "ab"


async def test_nobody_waits_for_a_row_that_a_hanging_commit_is_to_store(bench):
    with locked_database():
        wait_for_storage(bench.owner.journal, 0.2)
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(OperationalError, match="takes no writes"):
                await bench.ask({"outputs": [{"text": "a"}]})
        assert not bench.owner.journal._in_flight.failed
