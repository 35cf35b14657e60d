"""Every way to end × every kind of engine × streamed or whole: the exact row. Each case is one line of a table."""

import asyncio
import json
from contextlib import aclosing

import pytest

from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer
from streaming.models import Engine, Response
from streaming.ownership.ask import Ask
from streaming.ownership.start import check, start
from streaming.ownership.stop import stop
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.end_state import REFUSED, decide
from streaming.protocol.policy import parse_policy
from streaming.store import creation, orphans, threads
from streaming.store.creation import NewResponse
from tests.engine.conftest import save
from tests.fault_engine import FaultEngine
from tests.stream.conftest import DEADLINE_S, until_stored

MOST, CUT = 20, 12


@pytest.fixture
async def server():
    async with FaultEngine(rate=2000, slots=100, context=1000).serving() as made:
        yield made


async def serve(kind, server, tmp_path, happening) -> str:
    """An engine of the kind to which the thing will happen; returns its model's name."""
    server.set_control(HAPPENINGS[happening][0])
    if kind == "scripted":
        return "scripted"
    tokenizer = str(save(byte_tokenizer(), tmp_path / "m", CHATML))
    url = server.url + ("/v1" if kind == "openai" else "")
    fields = {"kind": kind, "url": url, "model": "m", "tokenizer": tokenizer, "context_tokens": 1000, "slots": 9}
    await threads.write(lambda: Engine.objects.create(name=kind, **fields))
    return "m"


async def ended_row(bench, model, happening, streamed) -> Response:
    ask = Ask(
        user_id=bench.user.pk, purpose="api", dialect=OPENAI_CHAT, stream=streamed, model=model, max_tokens=MOST,
        messages=[{"role": "user", "content": json.dumps({"script": script_of(happening)})}],
        policy=parse_policy("abort", 3600),
    )  # fmt: skip
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    reader = bench.reader(response, tail)
    reading = asyncio.ensure_future(reads(reader, streamed))
    if deed := HAPPENINGS[happening][2]:
        await until_stored(tail, lambda tail: tail.sent_tokens >= CUT)
        await until(lambda: not streamed or tail.delivered_tokens >= CUT)
        await deed(bench, response, reader)
    async with asyncio.timeout(DEADLINE_S):
        await reading
    row = await bench.ended(response)
    assert await bench.owner.journal.settled()
    return await bench.row(row)


async def until(true):
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.001)


async def is_stopped(bench, response, reader):
    await stop(bench.owner, await bench.row(response), "api")


async def is_left(bench, response, reader):
    reader.close()


async def loses_its_process(bench, response, reader):
    """What it ran is let go of without an end, and somebody else ends it by what is stored."""
    relay = bench.owner.relay(response.id)
    relay.tail.released = True
    relay.tail.wake()
    relay.give_up()
    await threads.write(orphans.end_orphan, await bench.row(response), orphans.LOST)


async def reads(reader, streamed):
    """As the handover does: frame by frame, or all of it at once when it has ended well."""
    if streamed:
        async with aclosing(reader.frames()) as frames:
            async for _ in frames:
                pass
        reader.close()
    else:
        events = await reader.all()
        if events and events[-1].payload.get("end_state") == "completed":
            reader.delivered_all(events)
        reader.close()


#: What happens: the fault engine's control, the scripted engine's fault, what is done to the response; then how the
#: row ends, and of CUT tokens made how many a reader of a stream and a caller who waits for the whole have taken.
LIMIT, NEVER = {}, {"prefill_s": 60}
SILENT = {"stall_after": CUT}
HAPPENINGS = {
    "it reaches its limit": (LIMIT, None, None, "completed length length", MOST, MOST, MOST),
    "the model ends": ({"eos_after": CUT}, None, None, "completed stop stop", CUT, CUT, CUT),
    "the engine reports an error": ({"error_after": CUT}, "error", None, "errored upstream_error -", CUT, CUT, 0),
    "the engine sends garbage": ({"garbage_after": CUT}, "protocol", None, "errored upstream_protocol -", CUT, CUT, 0),
    "the connection ends": ({"eof_after": CUT}, "lost", None, "truncated upstream_lost -", CUT, CUT, 0),
    "the engine falls silent": (SILENT, "stall", None, "timed_out idle -", CUT, CUT, 0),
    "the engine never begins": (NEVER, "stall", None, "timed_out ttft -", 0, 0, 0),
    "somebody stops it": (SILENT, "stall", is_stopped, "cancelled api -", CUT, CUT, 0),
    "the reader leaves": (SILENT, "stall", is_left, "abandoned disconnected -", CUT, CUT, 0),
    # What its readers took died with it.
    "its process is lost": (SILENT, "stall", loses_its_process, "truncated relay_lost -", CUT, 0, 0),
}
#: The happenings without a whole answer of which vLLM still says the count: its aborts are answered with one.
ABORTED = ("the engine falls silent", "the engine never begins", "somebody stops it", "the reader leaves")
#: By kind: tokens of the prompt that were cached (-1: all but one); whether that is said before the answer, a zero
#: too, so that a cut does not lose it; whether the prompt is the engine's own; where a cut answer is still counted.
KINDS = {
    "scripted": (0, False, False, ()),
    "llamacpp": (-1, False, False, ()),
    "vllm": (None, False, False, ABORTED),
    "openai": (0, False, True, ()),
    "anthropic": (0, True, True, ()),
}


def script_of(happening: str) -> dict:
    """The same for the scripted engine."""
    control, fault, *_ = HAPPENINGS[happening]
    tokens = MOST if control is LIMIT else CUT if happening == "the model ends" else 2 * MOST
    after = 0 if control is NEVER else CUT
    return {"outputs": [{"text": "a"}] * tokens, **({"fault": {"kind": fault, "after": after}} if fault else {})}


@pytest.mark.parametrize("happening", HAPPENINGS)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_row_says_exactly_what_was_made_sent_taken_and_wasted(
    bench, tmp_path, server, settings, kind, happening
):
    settings.IDLE_TIMEOUT_S = settings.TTFT_TIMEOUT_S = 0.3
    *_, end, made, taken_streamed, taken_whole = HAPPENINGS[happening]
    cached, is_said_first, has_own_prompt, counts_at_abort = KINDS[kind]
    model = await serve(kind, server, tmp_path, happening)
    for streamed, taken in ((True, taken_streamed), (False, taken_whole)):
        row = await ended_row(bench, model, happening, streamed)
        is_whole = row.end_state == "completed"
        knows_cached = is_whole or (is_said_first and made > 0 and happening != "its process is lost")
        expected = {
            "end": end,
            "generated": made,
            "completion": made,
            "sent": made,
            "delivered": taken,
            "wasted": made - taken,
            "cached": cached % row.prompt_tokens if knows_cached and cached is not None else None,
            "estimated": not is_whole and happening not in counts_at_abort,
        }
        assert told(row) == expected, f"{kind}, {'streamed' if streamed else 'whole'}: {happening}"
        assert row.prompt_tokens > 0
        if is_whole and not has_own_prompt:
            assert row.attempts[-1]["prompt_tokens"] == row.prompt_tokens
        assert sum(attempt["generated_tokens"] for attempt in row.attempts) == made


def told(row: Response) -> dict:
    return {
        "end": f"{row.end_state} {row.end_reason} {row.finish_reason or '-'}",
        "generated": row.generated_tokens,
        "completion": row.completion_tokens,
        "sent": row.sent_tokens,
        "delivered": row.delivered_tokens,
        "wasted": row.wasted_tokens,
        "cached": row.cached_tokens,
        "estimated": row.usage_estimated,
    }


async def test_a_refusal_has_made_and_cost_nothing(bench):
    new = NewResponse(bench.user.pk, "api", OPENAI_CHAT, "scripted", "abort", True, {}, (), "")
    row = await threads.write(creation.reject, new, decide(None, REFUSED, "over_quota"))
    assert told(await bench.row(row)) == {
        "end": "rejected over_quota -", "generated": 0, "completion": 0, "sent": 0, "delivered": 0, "wasted": 0,
        "cached": None, "estimated": False,
    }  # fmt: skip
