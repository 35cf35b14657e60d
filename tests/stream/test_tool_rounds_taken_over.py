"""What becomes of an answer that calls when its process is gone, wherever in its rounds that is. Costs about 5 s."""

import asyncio

import pytest

from streaming.models import Conversation, Engine, Response
from streaming.ownership.adoption import adopt_all
from streaming.ownership.stop import stop
from streaming.protocol.events import CONTINUED, TEXT, TOOL_CALL, TOOL_RESULT, Event
from streaming.protocol.rounds import rounds_of
from streaming.protocol.tool_result import ToolResult
from streaming.store import attempts, threads
from tests.stream.conftest import DEADLINE_S, until_stored
from tests.stream.toolbox import call, kinds_of, outputs, results_of, running

NAMES = ("calculate",)
GATES = ("in round 1", "before round 2", "in round 2")
SCRIPT = {
    "outputs": [*outputs("Let me "), {"gate": "in round 1"}, *outputs("see. ", call(), call('{"b": 2}'), "\n")],
    "rounds": [{"outputs": [{"gate": "before round 2"}, *outputs("It "), {"gate": "in round 2"}, *outputs("is 42.")]}],
}
WHOLE = "Let me see. It is 42."


@pytest.fixture
def row():
    """It plays one script: an adopted answer has no question to read one from before its calls were answered."""
    options = {"markers": "hermes", "script": SCRIPT}
    return Engine.objects.create(
        name="s", kind="scripted", model="scripted", context_tokens=100_000, slots=4, options=options
    )


async def asked(bench, policy="background"):
    chat = await threads.run(lambda: Conversation.objects.create(user=bench.user))
    chat_of = {"purpose": "chat", "conversation_id": chat.id, "question": "what is it?"}
    return await bench.ask("what is it?", policy, run_tools=NAMES, **chat_of)


async def until(place, engine, toolbox, tail):
    """Go on up to there, and no further."""
    for gate in GATES[: GATES.index(place) if place in GATES else 1]:
        engine.open_gate(gate)
    async with asyncio.timeout(DEADLINE_S):
        if place == "in the first tool":
            await toolbox.began.wait()
        elif place == "between results":
            await toolbox.began.wait()
            toolbox.began.clear()
            first, toolbox.let_go = toolbox.let_go, asyncio.Event()
            first.set()
            await toolbox.began.wait()
            await until_stored(tail, lambda t: results_of(t.events))
        elif place == "before round 2":
            await engine.until(lambda e: len(e.requests) == 2)
        else:
            text = "Let me " if place == "in round 1" else "It "
            await until_stored(tail, lambda t: any(e.payload.get("text") == text for e in t.events))


async def die(bench, response):
    """Stop a relay as kill -9 does to what others see: nothing more is written, nothing is released."""
    relay = bench.owner.relay(response.id)
    assert await bench.owner.journal.settled()
    relay.tail.released = True
    relay.give_up()
    async with asyncio.timeout(DEADLINE_S):
        await bench.owner.ended(response.id)
    assert await bench.owner.journal.settled()


PLACES = ["in round 1", "in the first tool", "between results", "before round 2", "in round 2"]


def let_go(toolbox, engine):
    toolbox.waits = False
    for gate in GATES:
        engine.open_gate(gate)


@pytest.mark.parametrize("place", PLACES)
async def test_wherever_its_process_dies_another_completes_the_same_answer(bench, successor, toolbox, engine, place):
    toolbox.waits = place in ("in the first tool", "between results")
    response, tail = await asked(bench)
    await until(place, engine, toolbox, tail)
    await die(bench, response)
    before = await bench.log(response)
    assert toolbox.cancelled == toolbox.waits
    let_go(toolbox, engine)
    assert await adopt_all(successor.owner) == 1
    ended, events = await successor.ended(response), await successor.log(response)
    assert events[: len(before)] == before
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (ended.end_state, ended.finish_reason, ended.epoch) == ("completed", "stop", 2)
    assert ended.output_text == WHOLE
    undisturbed, _ = await asked(successor)
    whole, log = await successor.ended(undisturbed), await successor.log(undisturbed)
    assert meant(events, response) == meant(log, whole)
    assert ended.prompt_tokens == whole.prompt_tokens
    assert ended.completion_tokens == ended.sent_tokens == whole.completion_tokens
    assert sum(event.token_count for event in events) == whole.completion_tokens
    assert ended.generated_tokens == sum(one["generated_tokens"] for one in ended.attempts) == whole.generated_tokens
    is_exact = place in ("in the first tool", "between results")
    assert ended.usage_estimated is not is_exact
    assert all(one["count"] == "exact" for one in ended.attempts) is is_exact


def meant(events, response):
    """The answer as it reads, with ids that are the same in every answer."""
    rounds = rounds_of(events)
    said = str([(one.text, one.calls, [result.payload for result in one.results]) for one in rounds])
    kinds = kinds_of([event for event in events if event.kind != CONTINUED])
    return said.replace(response.id.removeprefix("resp_"), "…"), kinds


async def test_who_runs_the_calls_that_were_left_waits_for_no_engine_meanwhile(
    bench, successor, toolbox, engine, settings
):
    toolbox.waits = True
    response, tail = await asked(bench)
    await until("between results", engine, toolbox, tail)
    await die(bench, response)
    toolbox.began.clear()
    settings.QUEUE_TIMEOUT_S = 0.2
    assert await adopt_all(successor.owner) == 1
    await running(toolbox)
    assert set(successor.owner.relay(response.id)._watch._deadlines) == {"total"}
    let_go(toolbox, engine)
    toolbox.let_go.set()
    assert (await successor.ended(response)).output_text == WHOLE


def test_who_died_in_a_tool_had_no_engine_at_work_also_where_the_owner_before_it_was_the_one_that_asked(row):
    call_event = {"index": 0, "call_id": "c", "name": "f", "arguments": "{}", "complete": True}
    called = Event(2, 1, TOOL_CALL, call_event, (), 5)
    over = [called, Event(3, 1, TOOL_RESULT, ToolResult("c", "x").payload()), Event(4, 1, TEXT, {"text": "y"}, (), 1)]
    first = attempts.attempt(request_id="resp_1-1", ended="tool_calls", generated_tokens=5, count="exact")
    for epoch, log, lost in ((1, [called], []), (2, [called], []), (1, over, [1])):
        orphan = Response(id="resp_1", epoch=epoch, engine=row, attempts=[first])
        made = sum(event.token_count for event in log)
        _, *more = attempts.with_lost(orphan, made, rounds_of(log))
        assert [(one["generated_tokens"], one["count"]) for one in more] == [(tokens, "at_least") for tokens in lost]


def test_what_a_round_has_read_is_what_its_first_engine_read():
    read = [(None, "relay_lost"), (10, "upstream_lost"), (14, "tool_calls"), (30, "tool_calls"), (50, "stop")]
    made = [attempts.attempt(prompt_tokens=count, ended=ended) for count, ended in read]
    assert attempts.read_in_rounds(made) == [(10, None), (30, None)]


async def test_an_abort_answer_whose_process_dies_in_a_tool_ends_with_what_was_counted(
    bench, successor, toolbox, engine
):
    toolbox.waits = True
    response, tail = await asked(bench, "abort")
    reader = bench.reader(response, tail)
    await until("in the first tool", engine, toolbox, tail)
    await die(bench, response)
    reader.close()
    await adopt_all(successor.owner)
    ended = await bench.row(response)
    assert (ended.end_state, ended.end_reason) == ("truncated", "relay_lost")
    assert [one["ended"] for one in ended.attempts] == ["tool_calls"]
    assert ended.generated_tokens == ended.attempts[0]["generated_tokens"]


async def test_a_stop_of_an_orphan_amid_its_results_runs_nothing_more(bench, successor, toolbox, engine):
    toolbox.waits = True
    response, tail = await asked(bench)
    await until("between results", engine, toolbox, tail)
    await die(bench, response)
    ran = len(toolbox.calls)
    await stop(successor.owner, await bench.row(response), "user")
    ended = await bench.row(response)
    assert (ended.end_state, len(toolbox.calls)) == ("cancelled", ran)


async def test_an_answer_that_nobody_goes_on_with_has_read_the_prompts_of_all_its_rounds(
    bench, successor, toolbox, engine
):
    response, tail = await asked(bench, "abort")
    reader = bench.reader(response, tail)
    await until("in round 2", engine, toolbox, tail)
    await die(bench, response)
    reader.close()
    await adopt_all(successor.owner)
    ended = await bench.row(response)
    first, lost = ended.attempts
    assert (first["ended"], lost["ended"]) == ("tool_calls", "relay_lost")
    assert (ended.end_reason, ended.prompt_tokens) == ("relay_lost", first["prompt_tokens"])
    assert ended.usage_estimated


async def test_a_process_that_leaves_lets_go_of_the_tool_and_another_goes_on(bench, successor, toolbox, engine):
    toolbox.waits = True
    response, _ = await asked(bench)
    engine.open_gate("in round 1")
    await running(toolbox)
    await bench.owner.drain(0.05)
    assert toolbox.cancelled == 1
    let_go(toolbox, engine)
    row = await successor.row(response)
    assert row.owner is None
    assert await adopt_all(successor.owner) == 1
    ended = await successor.ended(response)
    assert (ended.finish_reason, ended.output_text) == ("stop", WHOLE)
    assert len(results_of(await successor.log(response))) == 2


async def test_an_owner_that_was_taken_over_stops_the_tool_that_it_runs(bench, successor, toolbox, engine):
    toolbox.waits = True
    response, _ = await asked(bench)
    engine.open_gate("in round 1")
    await running(toolbox)
    toolbox.began.clear()
    assert await bench.owner.journal.settled()
    assert await adopt_all(successor.owner) == 1
    await running(toolbox)  # the successor's
    bench.owner.relay(response.id).tail.fenced = True
    bench.owner.relay(response.id).tail.wake()
    async with asyncio.timeout(DEADLINE_S):
        await bench.owner.ended(response.id)
    assert toolbox.cancelled == 1
    let_go(toolbox, engine)
    toolbox.let_go.set()
    ended = await successor.ended(response)
    assert (ended.end_state, ended.output_text) == ("completed", WHOLE)
    assert len(results_of(await successor.log(response))) == 2
