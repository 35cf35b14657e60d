"""A hosted engine's answer whose process dies in a tool: nothing of the engine is needed to go on. Costs about 2 s."""

import json

import pytest

from streaming.models import Engine
from streaming.ownership.adoption import adopt_all
from tests.fault_engine import FaultEngine
from tests.stream.conftest import until_stored
from tests.stream.test_tool_rounds_taken_over import asked, die
from tests.stream.toolbox import results_of, running

FUNCTION = {"name": "calculate", "arguments": json.dumps({"expression": "6*7"})}
CALL = {"index": 0, "id": "c1", "type": "function", "function": FUNCTION}
#: Three words and a call, of which its own account says that they are twelve tokens.
CALLED = [
    {"choices": [{"index": 0, "delta": {"tool_calls": [CALL]}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 12}},
]
SAID = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CALLED) + "data: [DONE]\n\n"


@pytest.fixture
async def fault():
    async with FaultEngine(rate=2000, slots=4, context=1000).serving() as server:
        yield server


@pytest.fixture
def row(fault):
    return Engine.objects.create(name="h", kind="openai", model="scripted", url=f"{fault.url}/v1", context_tokens=9000)


async def test_whose_owner_dies_in_the_first_tool_the_next_runs_it_and_asks_for_the_next_round(
    bench, successor, toolbox, fault
):
    toolbox.waits = True
    fault.set_control({"say": SAID, "say_after": 3})
    response, tail = await asked(bench)
    await running(toolbox)
    await until_stored(tail, lambda t: any(event.kind == "tool_call" for event in t.events))
    await die(bench, response)
    before = await bench.log(response)
    toolbox.waits = False
    fault.set_control({"eos_after": 4})
    assert await adopt_all(successor.owner) == 1
    ended, events = await successor.ended(response), await successor.log(response)
    assert (ended.end_state, ended.finish_reason, ended.epoch) == ("completed", "stop", 2)
    assert events[: len(before)] == before
    assert (len(toolbox.calls), len(results_of(events)), fault.requests_total) == (2, 1, 2)
    assert [message["role"] for message in fault.bodies[-1]["messages"]][-2:] == ["assistant", "tool"]
    made = [(one["ended"], one["generated_tokens"], one["count"]) for one in ended.attempts]
    assert made == [("tool_calls", 12, "exact"), ("stop", 5, "exact")]
    assert ended.completion_tokens == ended.generated_tokens == sum(event.token_count for event in events) == 17
    assert ended.prompt_tokens == sum(one["prompt_tokens"] for one in ended.attempts)
    assert not ended.usage_estimated


async def test_whose_owner_dies_amid_a_round_it_ends_with_what_was_said(bench, successor, toolbox, fault):
    fault.set_control({"rate": 20})
    response, tail = await asked(bench)
    await until_stored(tail, lambda t: t.sent_tokens >= 2)
    await die(bench, response)
    assert await adopt_all(successor.owner) == 1
    ended = await bench.row(response)
    assert (ended.end_state, ended.end_reason, toolbox.calls) == ("truncated", "relay_lost", [])
