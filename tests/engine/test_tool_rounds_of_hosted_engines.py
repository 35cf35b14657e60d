"""Rounds at hosted engines: what the endpoints read of calls and results, in the whole stack. Costs about 4 s."""

import asyncio
import json

import pytest
from aiohttp import web

from streaming.models import Conversation, Engine
from streaming.ownership.adoption import adopt_all
from streaming.ownership.ask import Ask
from streaming.ownership.start import check, start
from streaming.protocol.dialects import OPENAI_RESPONSES
from streaming.protocol.policy import parse_policy
from streaming.store import threads
from tests.stream.conftest import DEADLINE_S
from tests.stream.toolbox import kinds_of, results_of, running

BASE = {"openai": "/v1", "anthropic": ""}
ARGUMENTS = {"expression": "6*7"}


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here."""


class Endpoint:
    """Calls until it has read a result, in either wire; then it says so. Counts 10 tokens for each turn."""

    def __init__(self):
        self.bodies = []
        self.url = ""

    async def start(self):
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/messages", self.messages)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self):
        await self._runner.cleanup()

    async def chat(self, request):
        body = await self._read(request)
        usage = {"prompt_tokens": 10 * len(body["messages"]), "completion_tokens": 20}
        if body["messages"][-1]["role"] == "tool":
            deltas, reason = [{"content": "It is "}, {"content": "42."}], "stop"
        else:
            function = {"name": "calculate", "arguments": json.dumps(ARGUMENTS)}
            # The same id each time, as some servers do.
            calls = [{"index": 0, "id": "call_0", "type": "function", "function": function}]
            deltas, reason = [{"content": "Hm. "}, {"tool_calls": calls}], "tool_calls"
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, {"choices": [], "usage": usage}]
        return await self._stream(
            request, [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]
        )

    async def messages(self, request):
        body = await self._read(request)
        last = body["messages"][-1]["content"]
        if isinstance(last, list) and last[-1]["type"] == "tool_result":
            blocks, reason = [({"type": "text", "text": ""}, {"type": "text_delta", "text": "It is 42."})], "end_turn"
        else:
            use = {"type": "tool_use", "id": "toolu_0", "name": "calculate", "input": {}}
            blocks = [
                ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Hm. "}),
                (use, {"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)}),
            ]
            reason = "tool_use"
        usage = {"input_tokens": 10 * len(body["messages"]), "output_tokens": 0}
        events = [{"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}}]
        for index, (block, delta) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
        events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}})
        events.append({"type": "message_stop"})
        return await self._stream(request, [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events])

    async def _read(self, request):
        self.bodies.append(await request.json())
        return self.bodies[-1]

    async def _stream(self, request, frames):
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write("".join(frames).encode())
        return answer


@pytest.fixture
async def endpoint():
    endpoint = Endpoint()
    await endpoint.start()
    yield endpoint
    await endpoint.close()


@pytest.fixture(params=BASE)
async def row(request, endpoint):
    fields = {"name": "h", "kind": request.param, "model": "hosted", "context_tokens": 4096}
    return await threads.write(lambda: Engine.objects.create(url=endpoint.url + BASE[request.param], **fields))


async def asked(bench):
    chat = await threads.run(lambda: Conversation.objects.create(user=bench.user))
    ask = Ask(
        user_id=bench.user.pk, purpose="chat", dialect=OPENAI_RESPONSES, stream=True, model="hosted",
        messages=[{"role": "user", "content": "what is it?"}], policy=parse_policy("background", 3600),
        run_tools=("calculate",), conversation_id=chat.id, question="what is it?",
    )  # fmt: skip
    response, _ = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    return response


def told(kind, body):
    """What the endpoint was told in its second round: the call, and its result, by id."""
    *_, call, result = body["messages"]
    if kind == "openai":
        [made] = call["tool_calls"]
        return (
            call["content"],
            made["id"],
            json.loads(made["function"]["arguments"]),
            result["tool_call_id"],
            result["content"],
        )
    text, made = call["content"]
    [block] = result["content"]
    return text["text"], made["id"], made["input"], block["tool_use_id"], block["content"]


async def test_the_endpoint_reads_its_call_and_the_result_and_all_it_read_is_counted(bench, endpoint, row, toolbox):
    response = await asked(bench)
    ended, events = await bench.ended(response), await bench.log(response)
    assert (ended.end_state, ended.finish_reason, ended.output_text) == ("completed", "stop", "Hm. It is 42.")
    assert kinds_of(events) == ["started", "text", "tool_call", "tool_result", "text", "ended"]
    [(_, _, made)] = toolbox.calls
    assert made.arguments == ARGUMENTS
    first, second = endpoint.bodies
    assert [tool.get("name") or tool["function"]["name"] for tool in first["tools"]] == ["calculate"]
    output = f"result of calculate {json.dumps(ARGUMENTS)}"
    assert told(row.kind, second) == ("Hm. ", made.call_id, ARGUMENTS, made.call_id, output)
    assert second["tools"] == first["tools"]
    assert ended.prompt_tokens == 10 * len(first["messages"]) + 10 * len(second["messages"])
    assert (ended.generated_tokens, ended.completion_tokens, ended.usage_estimated) == (40, 40, False)
    assert [one["ended"] for one in ended.attempts] == ["tool_calls", "stop"]


async def test_who_gives_an_id_again_in_each_round_is_told_of_different_calls(
    bench, endpoint, row, toolbox, settings, monkeypatch
):
    settings.TOOL_ROUNDS_MAX = 2
    monkeypatch.setattr(Endpoint, "_read", never_a_result(Endpoint._read))
    ended = await bench.ended(response := await asked(bench))
    assert (ended.finish_reason, len(endpoint.bodies)) == ("tool_calls", 3)
    results = results_of(await bench.log(response))
    assert [result["error"] for result in results] == [None, None, "not_run"]
    assert len({result["call_id"] for result in results}) == 3


def never_a_result(read):
    """The endpoint takes what it reads last for a question."""

    async def read_as_question(self, request):
        body = await read(self, request)
        return {**body, "messages": [*body["messages"][:-1], {"role": "user", "content": "?"}]}

    return read_as_question


async def test_between_two_rounds_even_an_engine_that_cannot_go_on_is_gone_on_with(
    bench, successor, endpoint, row, toolbox
):
    """Nothing of the next round was made yet, and all it takes to ask for it is stored."""
    toolbox.waits = True
    response = await asked(bench)
    await running(toolbox)
    toolbox.waits = False
    relay = bench.owner.relay(response.id)

    async def never():
        await asyncio.get_running_loop().create_future()

    relay.asking._ask_engines = never
    toolbox.let_go.set()
    async with asyncio.timeout(DEADLINE_S):
        await relay.tail.stored(lambda event: event.kind == "tool_result")
    relay.tail.released = True
    relay.give_up()
    async with asyncio.timeout(DEADLINE_S):
        await bench.owner.ended(response.id)
    assert await adopt_all(successor.owner) == 1
    ended = await successor.ended(response)
    assert (ended.end_state, ended.finish_reason, ended.output_text) == ("completed", "stop", "Hm. It is 42.")
    assert ended.prompt_tokens == 10 + 30
