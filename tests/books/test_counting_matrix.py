"""Every way to end × every kind of engine × streamed or whole: the exact row; each case is a line of a table. 25 s."""

import pytest

from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer
from streaming.models import Engine, Response
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.end_state import REFUSED, decide
from streaming.store import creation, threads
from streaming.store.creation import NewResponse
from tests.books.ended import ended_row, set_timers
from tests.books.happenings import ADOPTED, HAPPENINGS, SLOTS, Happening
from tests.engine.conftest import save
from tests.fault_engine import FaultEngine

#: By kind: tokens of the prompt that were cached (-1: all but one); whether that is said before the answer, a zero
#: too, so that a cut does not lose it; whether the prompt is the engine's own; whether it carries answers on.
KINDS = {
    "scripted": (0, False, False, True),
    "llamacpp": (-1, False, False, True),
    "vllm": (None, False, False, True),
    "openai": (0, False, True, False),
    "anthropic": (0, True, True, False),
}
CELLS = [
    (kind, happening)
    for kind, (*_, carries_on) in KINDS.items()
    for happening in HAPPENINGS
    if carries_on or happening != ADOPTED
]


@pytest.fixture
async def server():
    async with FaultEngine(rate=2000, slots=100, context=1000).serving() as made:
        yield made


async def serve(kind, server, tmp_path, happening: Happening):
    """An engine of the kind to which the thing will happen."""
    options, url = {}, server.url + ("/v1" if kind == "openai" else "")
    if kind == "scripted":
        tokenizer, url, options = "", "", {"script": happening.script}
    else:
        tokenizer = str(save(byte_tokenizer(), tmp_path / "m", CHATML))
    fields = {"kind": kind, "url": url, "model": "m", "tokenizer": tokenizer, "options": options}
    await threads.write(lambda: Engine.objects.create(name=kind, context_tokens=1000, slots=SLOTS, **fields))


@pytest.mark.parametrize(("kind", "happening"), CELLS)
async def test_the_row_says_exactly_what_was_made_sent_taken_and_wasted(
    bench, tmp_path, server, settings, kind, happening
):
    case = HAPPENINGS[happening]
    set_timers(settings, case)
    await serve(kind, server, tmp_path, case)
    for streamed in (True, False):
        row = await ended_row(bench, server, case, streamed)
        assert told(row) == expected(row, kind, happening, streamed), f"{'streamed' if streamed else 'whole'}"
        assert row.prompt_tokens > 0
        assert sum(attempt["generated_tokens"] for attempt in row.attempts) == case.made
        assert row.usage_estimated == any(attempt["count"] != "exact" for attempt in row.attempts)


def expected(row: Response, kind, happening, streamed) -> dict:
    case, (cached, is_said_first, *_) = HAPPENINGS[happening], KINDS[kind]
    is_whole, taken = row.end_state == "completed", case.streamed if streamed else case.whole
    is_adopted = happening == ADOPTED
    knows_cached = is_whole or (is_said_first and case.made > 0 and happening != "its process is lost")
    # Who carries on reads more than the prompt, and of that the prompt is what counts.
    of_prompt = row.prompt_tokens if is_adopted and cached else cached and cached % row.prompt_tokens
    is_counted = is_whole or case.is_full or (case.vllm_counts and kind == "vllm")
    return {
        "end": case.end,
        "generated": case.made,
        "completion": case.made,
        "sent": case.made,
        "delivered": taken,
        "wasted": case.made - taken,
        "cached": of_prompt if knows_cached else None,
        "estimated": is_adopted or not is_counted,
    }


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
