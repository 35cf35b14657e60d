"""What /metrics says of responses, whoever ended them and how, and that its labels stay few. 4 s."""

import asyncio

import pytest
from django.db import connection, transaction

from streaming.metrics import registry
from streaming.metrics.delivery import prompt_class
from streaming.metrics.gaps import Gaps
from streaming.models import LedgerCheck, Response
from streaming.ownership.probe import Probe
from streaming.ownership.stop import stop
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.end_state import REFUSED, decide
from streaming.store import creation, ledger, orphans, responses, threads
from streaming.store.creation import NewResponse
from streaming.store.histograms import PROMPT_CLASSES
from tests.metrics.conftest import seen, value
from tests.stream.conftest import until_stored

FIVE = {"outputs": [{"text": "a"}], "repeat": 5, "delay_s": 0.002}
WAITING = {"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}]}
ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.002}


async def read(bench, response, tail) -> None:
    reader = bench.reader(response, tail)
    async for _ in reader.frames():
        pass
    reader.close()


async def test_an_answer_that_is_read_to_its_end_is_in_every_histogram_and_counter(bench, risen):
    response, tail = await bench.ask(FIVE)
    await read(bench, response, tail)
    await bench.ended(response)
    await bench.owner.journal.settled()
    row = await bench.row(response)
    end = {"model": "scripted", "purpose": "api", "end_state": "completed", "end_reason": "stop"}
    assert await risen("chat_responses_total", **end) == 1
    for histogram in ("queue", "ttft", "total"):
        assert await risen(f"chat_{histogram}_seconds_count", model="scripted") == 1
    assert await risen("chat_ttft_seconds_count", prompt_class=prompt_class(row.prompt_tokens)) == 1
    assert await risen("chat_ttft_seconds_sum") == pytest.approx(row.ttft_ms / 1000, abs=1e-4)
    assert await risen("chat_itl_seconds_count", model="scripted") == 5  # the last output is the end
    assert await risen("chat_itl_seconds_sum") >= 4 * 0.002
    for kind in ("prompt", "generated", "completion", "sent", "delivered"):
        assert await risen("chat_tokens_total", kind=kind) == getattr(row, f"{kind}_tokens") > 0
    assert await risen("chat_engine_attempts_total", engine="s", ended="stop") == 1
    assert await risen("chat_journal_commit_seconds_count") >= 2


async def test_what_is_taken_after_the_end_is_delivered_too_and_once(bench, risen):
    response, tail = await bench.ask(FIVE)
    reader = bench.reader(response, tail)
    await bench.ended(response)
    assert await risen("chat_tokens_total", kind="delivered") == 0
    reader.delivered_all(await reader.all())
    reader.close()
    await bench.owner.journal.settled()
    row = await bench.row(response)
    assert await risen("chat_tokens_total", kind="delivered") == row.delivered_tokens == 5
    assert await risen("chat_ttft_seconds_count") == 1
    await read(bench, response, tail)
    assert await risen("chat_tokens_total", kind="delivered") == 5


async def test_a_stop_is_an_end_and_a_proven_abort(bench, risen):
    response, tail = await bench.ask(ENDLESS)
    proven = ("chat_engine_aborts_total", frozenset({("engine", "s"), ("proven", "no")}))
    assert proven in await seen(), "it is there before it rises"
    await until_stored(tail, lambda tail: tail.sent_tokens > 3)
    await stop(bench.owner, response, "user")
    await bench.ended(response)
    assert await risen("chat_responses_total", end_state="cancelled", end_reason="user") == 1
    assert await risen("chat_engine_aborts_total", engine="s", proven="yes") == 1


async def test_ends_that_no_relay_writes_are_counted_as_they_are_committed(bench, risen):
    response, tail = await bench.ask(WAITING)
    await until_stored(tail, lambda tail: tail.sent_tokens == 1)
    assert await threads.write(orphans.end_orphan, await bench.row(response), orphans.LOST)
    assert await risen("chat_responses_total", end_state="truncated", end_reason="relay_lost") == 1
    assert await risen("chat_engine_attempts_total", engine="s", ended="relay_lost") == 1
    refused = NewResponse(bench.user.pk, "api", OPENAI_CHAT, "scripted", "abort", True, {}, (), "")
    end = decide(None, REFUSED, "over_quota")
    await threads.write(creation.reject, refused, end)
    assert await risen("chat_responses_total", end_state="rejected", end_reason="over_quota") == 1
    assert value(await seen(), "chat_relay_lost_responses") == 1


async def test_an_end_whose_transaction_is_undone_is_not_counted(bench, risen):
    response, tail = await bench.ask(WAITING)
    await until_stored(tail, lambda tail: tail.sent_tokens == 1)

    def undone() -> None:
        with transaction.atomic():
            assert responses.end(response.id, response.epoch, 9, responses.Ending(decide(None, "storage_failed")))
            transaction.set_rollback(True)

    await threads.write(undone)
    assert await risen("chat_responses_total") == 0


async def test_a_fault_in_counting_is_no_fault_of_the_end(bench, monkeypatch):
    monkeypatch.setattr("streaming.metrics.finished._count", lambda finished: 1 / 0)
    response, _ = await bench.ask(FIVE)
    assert (await bench.ended(response)).end_state == "completed"
    assert not bench.owner.journal.is_failing


async def test_gauges_show_what_runs_waits_and_is_read(bench, row, engine):
    row.slots = 1
    await threads.write(row.save)
    await bench.owner.pool.refresh(force=True)
    first, tail = await bench.ask(WAITING)
    await until_stored(tail, lambda tail: tail.sent_tokens == 1)
    second, _ = await bench.ask(WAITING)
    await asyncio.sleep(0)
    with bench.owner.readers.place(bench.user.pk, first.id):
        samples = await seen()
    assert value(samples, "chat_running_responses", model="scripted") == 1
    assert value(samples, "chat_queued_responses", model="scripted") == 1
    assert value(samples, "chat_readers") == 1
    assert value(samples, "chat_pool_slots", engine="s") == value(samples, "chat_pool_used_slots", engine="s") == 1
    assert value(samples, "chat_pool_healthy", engine="s") == 1
    assert value(samples, "chat_engine_up", engine="s") == 1
    assert value(samples, "chat_engine_running_requests", engine="s") == 1
    assert value(samples, "chat_engine_silent_seconds", engine="s") > 0
    assert value(samples, "chat_database_up") == 1
    engine.open_gate("g")
    for response in (first, second):
        await bench.ended(response)
    samples = await seen()
    assert value(samples, "chat_running_responses") == value(samples, "chat_queued_responses") == 0
    assert value(samples, "chat_engine_silent_seconds") == 0


async def test_the_journal_shows_that_it_waits_for_a_locked_database(bench, monkeypatch):
    response, tail = await bench.ask(WAITING)
    await until_stored(tail, lambda tail: tail.sent_tokens == 1)
    samples = await seen()
    assert value(samples, "chat_journal_lag_seconds") == value(samples, "chat_journal_pending_bytes") == 0
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(
        "streaming.journal.batch.Batch._write_together",
        lambda batch: asyncio.run_coroutine_threadsafe(release.wait(), loop).result(),
    )
    bench.owner.journal.append(tail, [])
    stopping = asyncio.ensure_future(stop(bench.owner, response, "user"))
    while not bench.owner.journal.lag_s:
        await asyncio.sleep(0)
    samples = await seen()
    assert value(samples, "chat_journal_lag_seconds") > 0
    monkeypatch.undo()
    release.set()
    await stopping


async def test_drift_is_that_of_the_last_look_only(bench):
    def drift(amount: int) -> LedgerCheck:
        return LedgerCheck(kind="engine", subject="s", low=0, high=0, seen=amount, drift=amount)

    await threads.write(ledger.keep, [drift(-7), drift(5), LedgerCheck(kind="quota", low=0, high=0, seen=0)])
    samples = await seen()
    assert value(samples, "chat_ledger_drift", kind="engine") == 12
    assert value(samples, "chat_ledger_drift", kind="quota") == 0

    def an_hour_ago() -> None:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE streaming_ledgercheck SET checked_at = '2020-01-01 00:00:00+00:00'")

    await threads.write(an_hour_ago)
    await threads.write(ledger.keep, [drift(0)])
    assert value(await seen(), "chat_ledger_drift") == 0


async def test_a_response_that_is_older_than_any_can_be_is_overdue(bench, settings):
    response, tail = await bench.ask(WAITING)
    assert value(await seen(), "chat_overdue_responses") == 0
    settings.TOTAL_TIMEOUT_S = -1e6
    assert value(await seen(), "chat_overdue_responses") == 1


async def test_a_scrape_asks_no_engine_and_no_database_and_has_them_asked_seldom(bench, engine, monkeypatch):
    asked = []
    monkeypatch.setattr(type(engine), "load", lambda self: asked.append(1) or 1 / 0)
    observer = bench.owner.observer
    for _ in range(50):
        observer.look_soon()
    await observer._looking
    assert len(asked) == 1
    assert observer.found.loads == {"s": None}


def test_gaps_of_many_responses_add_up_in_buckets_that_rise():
    gaps = Gaps()
    gaps.add("m", [4.0, 5.0, 5.1, 31.0])
    gaps.add("m", [40_000.0])
    gaps.add("m", [])
    (family,) = gaps.collect()
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert (buckets["0.005"], buckets["0.01"], buckets["0.04"], buckets["30.0"], buckets["+Inf"]) == (2, 3, 4, 4, 5)
    assert list(buckets.values()) == sorted(buckets.values())
    assert next(s.value for s in family.samples if s.name.endswith("_sum")) == pytest.approx(40.0451)


def test_labels_are_bounded_whatever_operators_call_their_models(monkeypatch):
    monkeypatch.setitem(registry._known, "model", set())
    names = {registry.bounded("model", f"m{n}") for n in range(5 * registry.NAMES_MAX)}
    assert len(names) == registry.NAMES_MAX + 1
    assert registry.bounded("model", "m3") == "m3"


def test_classes_of_prompts_are_those_of_the_usage_page():
    for bound, name in PROMPT_CLASSES[:-1]:
        assert prompt_class(bound - 1) == name.replace("–", "-") != prompt_class(bound)
    assert prompt_class(10**6) == PROMPT_CLASSES[-1][1]


async def test_a_probe_is_counted_as_what_it_is(bench, risen):
    assert (await Probe(bench.owner).readiness()).trouble == ""
    for row in await threads.run(lambda: list(Response.objects.filter(purpose="probe"))):
        await bench.ended(row)  # an output was proof enough, before the end was stored
    assert await risen("chat_responses_total", purpose="probe", end_state="completed") == 1
    assert await threads.run(Response.objects.filter(purpose="probe").count) == 1
