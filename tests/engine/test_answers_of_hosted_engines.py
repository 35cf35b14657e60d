"""Answers of chat endpoints in the whole stack: what is stored is what the endpoint said, and what it counted."""

import asyncio

import pytest

from streaming.models import Engine
from streaming.ownership.ask import Ask
from streaming.ownership.start import check, start
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.end_state import STOPPED, decide
from streaming.protocol.policy import parse_policy
from streaming.store import threads
from tests.engine.conftest import until
from tests.stream.conftest import until_stored

DIALECTS = {"openai": "/v1", "anthropic": ""}


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here."""


@pytest.fixture(params=DIALECTS)
async def row(request, fault):
    fields = {"name": "h", "kind": request.param, "model": "hosted", "context_tokens": 4096}
    return await threads.write(lambda: Engine.objects.create(url=fault.url + DIALECTS[request.param], **fields))


async def asked(bench, text="five words are in here", **fields):
    messages = [{"role": "user", "content": text}]
    ask = Ask(
        user_id=bench.user.pk, purpose="api", dialect=OPENAI_CHAT, stream=True, model="hosted", messages=messages,
        policy=parse_policy("background", 3600), **fields,
    )  # fmt: skip
    return await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())


async def test_the_answer_and_its_counts_are_the_endpoints(bench, fault):
    response, _ = await asked(bench, max_tokens=30)
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason, row.finish_reason) == ("completed", "length", "length")
    assert row.output_text.count(" the") == 28
    assert (row.prompt_tokens, row.cached_tokens) == (5, 0)
    assert (row.generated_tokens, row.completion_tokens, row.sent_tokens) == (30, 30, 30)
    assert row.usage_estimated is False
    assert fault.bodies[-1]["messages"] == [{"role": "user", "content": "five words are in here"}]


async def test_what_the_endpoint_does_not_count_is_estimated_and_marked(bench, fault):
    fault.set_control({"usage": "none"})
    row = await bench.ended((await asked(bench, max_tokens=30))[0])
    assert (row.end_state, row.usage_estimated, row.generated_tokens) == ("completed", True, 29)
    assert row.output_text.count(" the") == 28


async def test_an_answer_as_long_as_it_may_be_is_not_cut_by_a_guess(bench, fault):
    fault.set_control({"usage": "none"})
    row = await bench.ended((await asked(bench, max_tokens=3))[0])
    assert (row.end_state, row.end_reason) == ("completed", "length")
    assert row.output_text.endswith("> the the")


@pytest.mark.parametrize(
    ("control", "end"),
    [
        ({"reset_after": 3}, ("truncated", "upstream_lost")),
        ({"error_after": 3}, ("errored", "upstream_error")),
        ({"garbage_after": 3}, ("errored", "upstream_protocol")),
        ({"status": 429}, ("errored", "upstream_error")),
    ],
)
async def test_a_fault_is_its_end_and_what_came_before_it_stands(bench, fault, control, end):
    fault.set_control(control)
    row = await bench.ended((await asked(bench))[0])
    assert (row.end_state, row.end_reason) == end
    assert row.output_text.count(" the") == (0 if "status" in control else 2)
    assert row.usage_estimated is True
    assert "secret" not in row.error_message


async def test_a_stop_closes_the_socket_and_claims_no_proof(bench, fault):
    response, tail = await asked(bench, max_tokens=4000)
    await until_stored(tail, lambda tail: tail.last_seq > 2)
    bench.owner.relay(response.id).stop(decide(None, STOPPED, "api"))
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason, row.abort_proven) == ("cancelled", "api", False)
    await until(lambda: at_rest(fault))


async def at_rest(fault):
    return fault.running == 0
