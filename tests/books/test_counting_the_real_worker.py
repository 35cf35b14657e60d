"""The counting matrix on the real llama.cpp worker: exact but for the steps that it makes before it notices. 15 s."""

from dataclasses import replace

import pytest
from django.db.models import Sum

from streaming.engine.llamacpp import LlamaCppEngine
from streaming.models import Engine, ResponseEvent
from streaming.store import threads
from streaming.store.ledger import TOKENS_PER_ABORT
from tests.books.ended import ended_row, set_timers
from tests.books.happenings import ADOPTED, CUT, HAPPENINGS, SLOTS
from tests.books.standing import NO_END, cut_off
from tests.engine.conftest import until
from tests.fault_engine import FaultEngine

pytestmark = pytest.mark.engine

#: Of what ends by it, and of what is to be met in the middle; the demo model's end tokens do not come.
LIMIT, FAR_LIMIT = 60, 400
LIMITED, QUEUED, LOST, LEFT = "it reaches its limit", "no slot is free", "its process is lost", "the reader leaves"
#: What a real engine does not do when it is told to belongs to the fault engine.
CELLS = [
    LIMITED, QUEUED, "the whole takes too long", "somebody stops it", "a new message supersedes it", "it is deleted",
    LEFT, LOST, ADOPTED,
]  # fmt: skip


@pytest.fixture
async def wire(worker_url, demo_tokenizer, bench):
    """The worker's own account, beside its row."""
    fields = {"kind": "llamacpp", "url": worker_url, "tokenizer": str(demo_tokenizer), "model": "m", "slots": SLOTS}
    await threads.write(lambda: Engine.objects.create(name="real", **fields))
    engine = LlamaCppEngine(worker_url, {})
    yield engine
    await engine.aclose()


def held_amid(case, url):
    """The same, done while the worker stands: what it has made until then is read."""

    async def done(asked):
        await cut_off(url, asked.bench.owner.relay(asked.response.id), lambda: case.deed(asked))

    return replace(case, deed=done)


async def counted(wire) -> int:
    """What it has made, once it works on nothing."""

    async def is_idle():
        return (await wire.load()).running == 0

    await until(is_idle)
    return (await wire.counters()).generated_tokens


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("happening", CELLS)
async def test_the_row_says_what_the_worker_made_but_for_what_it_makes_unseen(
    bench, settings, wire, worker_url, happening, streamed
):
    case, before = HAPPENINGS[happening], await counted(wire)
    limit = LIMIT if happening in (LIMITED, ADOPTED) else FAR_LIMIT
    if happening not in (LIMITED, QUEUED, LOST, ADOPTED):
        case = held_amid(case, worker_url)
    set_timers(settings, case)
    text, server = "Write a long story.", FaultEngine()  # nobody asks that one
    row = await ended_row(bench, server, case, streamed, text=text, max_tokens=limit, sampling=NO_END)
    made = await counted(wire) - before
    assert f"{row.end_state} {row.end_reason} {row.finish_reason or '-'}" == case.end
    is_whole = row.end_state == "completed"
    assert row.generated_tokens == row.completion_tokens == row.sent_tokens
    assert row.generated_tokens == sum(attempt["generated_tokens"] for attempt in row.attempts)
    assert row.generated_tokens == limit if is_whole else CUT * bool(case.deed) <= row.generated_tokens < limit
    if happening != "it is deleted":  # its log went with it
        events = ResponseEvent.objects.filter(response=row)
        assert (await threads.run(events.aggregate, n=Sum("token_count")))["n"] == row.sent_tokens
    unseen = 0 if happening in (LIMITED, QUEUED) else TOKENS_PER_ABORT
    assert row.generated_tokens <= made <= row.generated_tokens + (limit if happening in (LOST, ADOPTED) else unseen)
    assert row.usage_estimated is (happening not in (LIMITED, QUEUED))
    judge_delivery(row, happening, streamed, is_whole)
    if is_whole:
        assert 0 <= row.cached_tokens <= row.prompt_tokens


def judge_delivery(row, happening, streamed, is_whole):
    if happening == LOST:
        assert row.delivered_tokens == 0, "what its readers took died with it"
    elif streamed and happening == LEFT:
        assert CUT <= row.delivered_tokens <= row.sent_tokens
    else:
        assert row.delivered_tokens == (row.sent_tokens if streamed or is_whole else 0)
