"""What an answer is whose calls are run: rounds, their results, bounds, ends while a tool runs. Costs about 10 s."""

import asyncio
import contextlib
import json
import re
import time

import pytest

from streaming.admission import quota_book
from streaming.engine.registry import bundle_for
from streaming.metrics.tools import CALLS
from streaming.models import Conversation, Quota
from streaming.protocol.dialects import OPENAI_RESPONSES, encoder_for
from streaming.protocol.dialects.base import Head
from streaming.protocol.end_state import STOPPED, decide
from streaming.protocol.tool_result import ToolResult
from streaming.reader import Reader
from streaming.store import clock, quotas, threads
from streaming.tools import catalogue
from streaming.tools import running as running_tools
from streaming.tools.tool import Tool, parameters
from tests.stream.conftest import DEADLINE_S, text_of, until_stored
from tests.stream.toolbox import call, kinds_of, outputs, results_of, running

NAMES = ("calculate", "current_time")


TWO_ROUNDS = {"outputs": outputs("Let me see. ", call()), "rounds": [{"outputs": outputs("It is ", "42.")}]}


@pytest.fixture
async def chats(row, bench, toolbox):
    """The engine's model writes calls; each question is one of a conversation."""
    row.options = {"markers": "hermes"}
    await threads.run(row.save)
    await bench.owner.pool.refresh(force=True)

    async def ask(script=TWO_ROUNDS, **fields):
        chat = await threads.run(lambda: Conversation.objects.create(user=bench.user))
        question = json.dumps({"script": script})
        fields = {"run_tools": NAMES, "purpose": "chat", **fields}
        return await bench.ask(script, conversation_id=chat.id, question=question, **fields)

    return ask


async def test_calls_are_run_and_the_model_reads_what_came_of_them(bench, chats, toolbox, engine, row):
    response, _ = await chats()
    ended, events = await bench.ended(response), await bench.log(response)
    assert kinds_of(events) == ["started", "text", "tool_call", "tool_result", "text", "ended"]
    assert (ended.end_state, ended.finish_reason) == ("completed", "stop")
    assert ended.output_text == text_of(events) == "Let me see. It is 42."
    [(user_id, names, made)] = toolbox.calls
    assert (user_id, names, made.name, made.arguments) == (bench.user.pk, NAMES, "calculate", {"expression": "6*7"})
    [result] = results_of(events)
    assert result == {"call_id": made.call_id, "output": 'result of calculate {"expression": "6*7"}', "error": None}

    first, second = engine.requests
    prompt = bundle_for(row).tokenizer.decode(list(second.prompt_ids), skip_special_tokens=False)
    assert prompt.index("Let me see. <tool_call>") < prompt.index("result of calculate")
    assert list(second.prompt_ids[: len(first.prompt_ids) - 1]) == list(first.prompt_ids[:-1])
    assert [turn["role"] for turn in second.messages] == ["user", "assistant", "tool"]


async def test_prompts_of_all_rounds_are_counted_and_each_is_an_attempt_that_is_exact(bench, chats, engine):
    response, _ = await chats()
    figures = bench.owner.relay(response.id).figures
    ended, events = await bench.ended(response), await bench.log(response)
    assert ended.prompt_tokens == sum(len(request.prompt_ids) for request in engine.requests)
    assert ended.cached_tokens == 0
    assert ended.generated_tokens == ended.completion_tokens == ended.sent_tokens
    assert ended.generated_tokens == sum(event.token_count for event in events)
    first, second = ended.attempts
    assert [one["ended"] for one in ended.attempts] == ["tool_calls", "stop"]
    assert [one["request_id"] for one in ended.attempts] == [f"{response.id}-1", f"{response.id}-1r2"]
    assert [one["count"] for one in ended.attempts] == ["exact", "exact"]
    assert first["generated_tokens"] + second["generated_tokens"] == ended.generated_tokens
    assert [one["prompt_tokens"] for one in ended.attempts] == [len(r.prompt_ids) for r in engine.requests]
    assert not ended.usage_estimated
    assert events[-1].payload["usage"]["prompt_tokens"] == ended.prompt_tokens
    assert len(figures.ordered_gaps_ms) == 2 + 2  # between three outputs and three; between rounds is no gap


async def test_while_a_tool_runs_no_engine_is_kept_and_none_is_waited_for(bench, chats, toolbox, engine, settings):
    settings.IDLE_TIMEOUT_S = settings.TTFT_TIMEOUT_S = settings.QUEUE_TIMEOUT_S = 0.2
    toolbox.waits = True
    response, tail = await chats()
    await running(toolbox)
    [seat] = bench.owner.pool.seats
    assert (seat.leased, engine.running.total()) == (0, 0)
    relay = bench.owner.relay(response.id)
    assert set(relay._watch._deadlines) == {"total"}
    head = Head(response.id, response.model, 0)
    reader = Reader(
        response.id, encoder_for(OPENAI_RESPONSES, head), tail=tail, journal=bench.owner.journal, heartbeat_s=0.05
    )
    frames = reader.frames()
    async with asyncio.timeout(DEADLINE_S):
        while b"function_call_arguments.done" not in await anext(frames):
            pass
        hearts = [await anext(frames) for _ in range(6)]  # longer than any of the engine's timers
    assert set(hearts) == {b": ping\n"}
    toolbox.let_go.set()
    async with asyncio.timeout(DEADLINE_S):
        rest = b"".join([frame async for frame in frames])
    reader.close()
    assert rest.index(b"function_call_output") < rest.index(b"42.") < rest.index(b"response.completed")


async def test_a_later_round_waits_for_an_engine_no_longer_than_a_first(bench, chats, toolbox, settings):
    settings.QUEUE_TIMEOUT_S = 0.3
    toolbox.waits = True
    response, _ = await chats()
    await running(toolbox)
    [seat] = bench.owner.pool.seats
    seat.leased += seat.slots  # others have come meanwhile
    toolbox.let_go.set()
    try:
        ended = await bench.ended(response)
    finally:
        seat.leased -= seat.slots
    assert (ended.end_state, ended.end_reason, ended.output_text) == ("timed_out", "queue", "Let me see. ")
    assert [one["ended"] for one in ended.attempts] == ["tool_calls"]
    assert (seat.leased, len(bench.owner.pool._queue("scripted").waiting)) == (0, 0)


async def test_a_stop_while_a_tool_runs_ends_it_and_the_answer_at_once(bench, chats, toolbox, engine):
    toolbox.waits = True
    response, _ = await chats()
    await running(toolbox)
    bench.owner.relay(response.id).stop(decide(None, STOPPED, "user"))
    ended, events = await bench.ended(response), await bench.log(response)
    assert (ended.end_state, ended.end_reason, toolbox.cancelled) == ("cancelled", "user", 1)
    assert (ended.abort_proven, ended.tokens_after_stop) == (True, 0)
    assert ended.stop_ms < 1000
    assert results_of(events) == []
    assert ended.generated_tokens == sum(event.token_count for event in events)
    assert (len(engine.requests), len(ended.attempts)) == (1, 1)
    assert ended.prompt_tokens == len(engine.requests[0].prompt_ids)
    assert not ended.usage_estimated


@pytest.mark.parametrize("policy", ["abort", "grace=0.05"])
async def test_the_last_reader_leaving_while_a_tool_runs_ends_both(bench, chats, toolbox, policy):
    toolbox.waits = True
    response, tail = await chats(policy=policy)
    reader = bench.reader(response, tail)
    await running(toolbox)
    reader.close()
    ended = await bench.ended(response)
    assert (ended.end_state, toolbox.cancelled) == ("abandoned", 1)


async def test_the_total_timer_runs_on_while_a_tool_hangs(bench, chats, toolbox, settings):
    settings.TOTAL_TIMEOUT_S = 0.5
    toolbox.waits = True
    response, _ = await chats()
    ended = await bench.ended(response)
    assert (ended.end_state, ended.end_reason, toolbox.cancelled) == ("timed_out", "total", 1)


async def test_calls_of_a_round_run_one_after_the_other_and_each_result_is_stored_at_once(bench, chats, toolbox):
    toolbox.waits = True
    response, tail = await chats({**TWO_ROUNDS, "outputs": outputs(call("{}"), call('{"a": 1}'))})
    await running(toolbox)
    assert len(toolbox.calls) == 1
    toolbox.waits = False
    toolbox.let_go.set()
    await bench.ended(response)
    assert [made.arguments for _, _, made in toolbox.calls] == [{}, {"a": 1}]
    events = await bench.log(response)
    assert [result["call_id"] for result in results_of(events)] == [made.call_id for _, _, made in toolbox.calls]


async def test_a_tool_that_breaks_its_promise_is_a_failure_that_the_model_reads(bench, chats, toolbox, engine):
    def broken(_call):
        raise RuntimeError("secret words")

    toolbox.outcome = broken
    response, _ = await chats()
    ended = await bench.ended(response)
    assert ended.finish_reason == "stop"
    [result] = results_of(await bench.log(response))
    assert (result["error"], result["output"]) == ("failed", "The tool failed.")
    assert engine.requests[1].messages[-1]["content"] == "The tool failed."


async def test_arguments_that_are_no_json_are_not_run_and_the_model_is_told(bench, chats, toolbox):
    response, _ = await chats({**TWO_ROUNDS, "outputs": outputs(call('{"expression": '), call())})
    await bench.ended(response)
    first, second = results_of(await bench.log(response))
    assert (first["error"], second["error"]) == ("invalid_arguments", None)
    assert "no JSON object" in first["output"]
    assert len(toolbox.calls) == 1


@pytest.mark.parametrize(
    ("script", "fields", "finish_reason"),
    [
        ({"finish_reason": "length"}, {}, "length"),
        ({}, {"max_tokens": 40}, "length"),
        ({"fault": {"kind": "error", "after": 2}}, {}, None),
        ({}, {"stops": ("see",)}, "stop"),
    ],
)
async def test_calls_run_only_when_the_engine_has_ended_its_round_with_them(
    bench, chats, toolbox, script, fields, finish_reason
):
    response, _ = await chats({**TWO_ROUNDS, **script}, **fields)
    ended = await bench.ended(response)
    assert (ended.finish_reason, toolbox.calls) == (finish_reason, [])
    assert results_of(await bench.log(response)) == []


async def test_a_model_that_calls_without_end_is_told_so_and_the_answer_ends_with_its_calls(
    bench, chats, toolbox, engine, settings
):
    settings.TOOL_ROUNDS_MAX = 2
    response, _ = await chats({"outputs": outputs("again ", call())})
    ended, events = await bench.ended(response), await bench.log(response)
    assert (ended.end_state, ended.finish_reason) == ("completed", "tool_calls")
    assert (len(toolbox.calls), len(engine.requests), len(ended.attempts)) == (2, 3, 3)
    assert [result["error"] for result in results_of(events)] == [None, None, "not_run"]
    assert "2 rounds" in results_of(events)[-1]["output"]
    calls = [event.payload for event in events if event.kind == "tool_call" and event.payload["complete"]]
    assert [made["index"] for made in calls] == [0, 1, 2]
    assert [made["call_id"] for made in calls] == [result["call_id"] for result in results_of(events)]
    assert len({made["call_id"] for made in calls}) == 3
    assert ended.prompt_tokens == sum(len(request.prompt_ids) for request in engine.requests)


async def test_a_flood_of_calls_is_answered_and_not_run(bench, chats, toolbox, settings):
    settings.TOOL_CALLS_MAX, settings.MAX_OUTPUT_TOKENS = 3, 50_000
    response, _ = await chats({**TWO_ROUNDS, "outputs": outputs(*[call()] * 200)})
    ended = await bench.ended(response)
    results = results_of(await bench.log(response))
    assert (len(toolbox.calls), len(results), ended.finish_reason) == (3, 200, "stop")
    assert [result["error"] for result in results] == [None] * 3 + ["not_run"] * 197


async def test_tokens_of_all_rounds_have_one_limit(bench, chats, engine):
    response, _ = await chats()
    whole = await bench.ended(response)
    response, _ = await chats(max_tokens=whole.generated_tokens - 3)
    ended = await bench.ended(response)
    assert (ended.finish_reason, ended.completion_tokens) == ("length", whole.generated_tokens - 3)
    assert ended.output_text == "Let me see. It is 42."[:-3]
    first = whole.attempts[0]["generated_tokens"]
    response, _ = await chats(max_tokens=first)
    ended = await bench.ended(response)
    assert (ended.finish_reason, len(ended.attempts)) == ("length", 1)
    assert results_of(await bench.log(response)) == []
    assert ended.prompt_tokens == ended.attempts[0]["prompt_tokens"]


async def test_a_result_that_leaves_no_room_in_the_context_ends_the_answer_as_length(bench, chats, toolbox, row):
    toolbox.outcome = lambda call: ToolResult(call.call_id, "x" * row.context_tokens)
    response, _ = await chats()
    ended = await bench.ended(response)
    assert (ended.end_state, ended.finish_reason, len(ended.attempts)) == ("completed", "length", 1)
    assert ended.output_text == "Let me see. "


async def test_a_later_round_asks_for_no_more_than_the_context_has_left(bench, chats, toolbox, row, engine, settings):
    settings.MAX_OUTPUT_TOKENS = 50_000
    toolbox.outcome = lambda call: ToolResult(call.call_id, "x" * 90_000)
    response, _ = await chats()
    await bench.ended(response)
    second = engine.requests[1]
    assert second.sampling.max_tokens == row.context_tokens - len(second.prompt_ids)


async def test_an_answer_that_called_reads_alike_from_every_cursor_and_for_two_readers(bench, chats, toolbox):
    toolbox.waits = True
    response, tail = await chats({**TWO_ROUNDS, "outputs": outputs("Hm. ", call(), call("{}"))})
    head = Head(response.id, response.model, 0)

    def reader(cursor=0, tail=tail):
        encoder = encoder_for(OPENAI_RESPONSES, head)
        return Reader(response.id, encoder, tail=tail, journal=bench.owner.journal, heartbeat_s=15, cursor=cursor)

    async def read(one):
        with contextlib.closing(one):
            return b"".join([frame async for frame in one.frames()])

    early = [asyncio.ensure_future(read(reader())) for _ in range(2)]
    await running(toolbox)
    late = asyncio.ensure_future(read(reader()))
    toolbox.waits = False
    toolbox.let_go.set()
    async with asyncio.timeout(DEADLINE_S):
        shown = [*await asyncio.gather(*early), await late]
    await bench.ended(response)
    events = await bench.log(response)
    said = [items_in(one) for one in shown]
    assert said[0] == said[1] == said[2] == items_in(await read(reader(tail=None)))
    for cursor in range(len(events)):
        assert items_in(await read(reader(cursor, None))) == said[0]


def items_in(data):
    """The items of the closing event."""
    last = data.decode().rstrip().rsplit("\n\n", 1)[-1]
    response = json.loads(last[last.index("data: ") + 6 :])["response"]
    assert response["status"] == "completed"
    return response["output"]


async def test_an_engine_that_fails_before_a_later_round_began_is_followed_by_another_try(bench, chats, engine):
    broken = {"outputs": outputs("It is ", "42."), "fault": {"kind": "lost", "after": 0, "times": 2}}
    response, _ = await chats({**TWO_ROUNDS, "rounds": [broken]})
    ended = await bench.ended(response)
    assert (ended.finish_reason, ended.output_text) == ("stop", "Let me see. It is 42.")
    assert [one["ended"] for one in ended.attempts] == ["tool_calls", "upstream_lost", "upstream_lost", "stop"]
    assert ended.prompt_tokens == len(engine.requests[0].prompt_ids) + len(engine.requests[1].prompt_ids)


async def test_each_round_has_as_many_tries_as_an_answer_of_one(bench, chats):
    def lost(script, times):
        return {**script, "fault": {"kind": "lost", "after": 0, "times": times}}

    # Tries are counted through the whole response: two fail in each round.
    response, _ = await chats({**lost(TWO_ROUNDS, 2), "rounds": [lost(*TWO_ROUNDS["rounds"], 5)]})
    ended = await bench.ended(response)
    assert ended.output_text == "Let me see. It is 42."
    tries = ["upstream_lost", "upstream_lost"]
    assert [one["ended"] for one in ended.attempts] == [*tries, "tool_calls", *tries, "stop"]


async def test_waiting_results_are_in_the_tail_before_the_tool_after_them_ends(bench, chats, toolbox):
    toolbox.waits = True
    response, tail = await chats({**TWO_ROUNDS, "outputs": outputs(call("{}"), call('{"a": 1}'))})
    await running(toolbox)
    toolbox.began.clear()
    toolbox.let_go.set()
    toolbox.let_go = asyncio.Event()
    await running(toolbox)
    await until_stored(tail, lambda t: results_of(t.events))
    assert len(results_of(tail.events)) == 1
    toolbox.let_go.set()
    assert (await bench.ended(response)).finish_reason == "stop"


async def test_a_call_that_its_model_left_open_is_whole_when_the_engine_has_ended_its_turn(bench, chats, toolbox):
    open_end = call().removesuffix("\n</tool_call>\n")
    response, _ = await chats({**TWO_ROUNDS, "outputs": outputs(open_end)})
    ended = await bench.ended(response)
    assert ended.output_text == "It is 42."
    [result] = results_of(await bench.log(response))
    assert (result["error"], len(toolbox.calls)) == (None, 1)


async def test_what_all_rounds_read_is_paid_for_beyond_what_was_reserved(bench, chats, toolbox, engine, monkeypatch):
    monkeypatch.setattr(quota_book, "REFRESH_S", 0.0)
    now_s = time.time()
    monkeypatch.setattr(clock, "now_s", lambda: now_s)  # no day ends before it is looked at
    toolbox.outcome = lambda call: ToolResult(call.call_id, "x" * 2000)
    quota = await threads.write(lambda: Quota.objects.create(user=bench.user, tokens_per_day=10_000))
    response, _ = await chats(max_tokens=200)
    ended = await bench.ended(response)
    reserved = len(engine.requests[0].prompt_ids) + 200
    assert ended.prompt_tokens + ended.generated_tokens > reserved
    await chats(max_tokens=1)  # takes in what was settled
    [told] = [text for _, text in await threads.run(quotas.in_use, quota, now_s) if "tokens this day" in text]
    used = int(re.search(r"and ([0-9]+) tokens this day", told)[1])
    assert used >= ended.prompt_tokens + ended.generated_tokens


async def test_calls_are_counted_by_tool_and_outcome_and_names_that_a_model_invents_share_one(bench, chats, toolbox):
    def counted(tool, outcome):
        return CALLS.labels(tool, outcome)._value.get()

    before = counted("calculate", "ok"), counted("other", "ok"), counted("calculate", "invalid_arguments")
    invented = [call(name=f"invented{nth}") for nth in range(3)]
    response, _ = await chats({**TWO_ROUNDS, "outputs": outputs(call(), *invented, call("[]"))})
    await bench.ended(response)
    after = counted("calculate", "ok"), counted("other", "ok"), counted("calculate", "invalid_arguments")
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 3, 1]


async def test_a_tool_of_ours_that_hangs_is_ended_in_time_and_the_answer_goes_on(
    bench, chats, engine, settings, monkeypatch
):
    ended_with = []

    async def hang(_user_id, _arguments):
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException as error:
            ended_with.append(type(error))
            raise

    settings.PAGE_TOOLS, settings.TOOL_TIMEOUT_S = ["hang"], 0.1
    monkeypatch.setitem(catalogue.TOOLS, "hang", Tool("hang", "Hangs.", parameters(), hang))
    monkeypatch.setattr("streaming.tools.run", running_tools.run)
    script = {**TWO_ROUNDS, "outputs": outputs(call("{}", "hang"), call("{}", "gone"))}
    response, _ = await chats(script, run_tools=("hang",))
    ended = await bench.ended(response)
    assert (ended.finish_reason, ended.output_text) == ("stop", "It is 42.")
    assert [result["error"] for result in results_of(await bench.log(response))] == ["timed_out", "unknown_tool"]
    assert ended_with == [asyncio.CancelledError]
    assert "longer than 0.1 seconds" in engine.requests[1].messages[-2]["content"]
