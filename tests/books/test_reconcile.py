"""The ledger: engines' counters, rollups, quotas and rows without an end against what responses say."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from streaming.engine.llamacpp import LlamaCppEngine
from streaming.models import DailyUsage, Engine, EngineReading, LedgerCheck, Quota, QuotaUse, Response
from streaming.ownership.ledger import reconcile
from streaming.ownership.start import check, start
from streaming.ownership.stop import stop
from streaming.store import ledger, threads, usage
from streaming.store.ledger import Bounds
from streaming.tasks.reconcile import reconcile_books
from tests.books.standing import NO_END, cut_off
from tests.engine.answers import added, ask_of, asked
from tests.engine.conftest import ask as engine_ask
from tests.engine.conftest import collect
from tests.fault_engine import FaultEngine
from tests.stream.conftest import until_stored

EXACTLY = timedelta(0)


@pytest.fixture
async def server():
    async with FaultEngine(rate=2000, slots=100, context=1000).serving() as made:
        yield made


async def looked(kind="engine") -> list[LedgerCheck]:
    """One look in which no clock differs."""
    checks = await asyncio.to_thread(reconcile, None, EXACTLY)
    return [one for one in checks if one.kind == kind]


async def stopped(bench, url=None, at_tokens=5, **fields):
    """A response that is stopped when some of it was shown; while its worker at ``url`` stands, if there is one."""
    ask = ask_of(bench, max_tokens=900, **fields)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens >= at_tokens)
    row = await bench.row(response)
    if url:
        await cut_off(url, bench.owner.relay(response.id), lambda: stop(bench.owner, row, "api"))
    else:
        await stop(bench.owner, row, "api")
    return await bench.ended(response)


@pytest.mark.parametrize(("kind", "slack"), [("vllm", 0), ("llamacpp", 6 * ledger.TOKENS_PER_ABORT)])
async def test_an_engine_agrees_with_its_rows_and_what_others_asked_of_it_drifts(bench, tmp_path, server, kind, slack):
    server.set_control({"rate": 100})
    await added(tmp_path, kind, server.url)
    assert await looked() == [], "there is nothing before the first reading"
    await asyncio.gather(*[asked(bench, max_tokens=40) for _ in range(5)])
    if kind == "llamacpp":  # what it makes while this process does not run nobody has read when it is cut off
        server.set_control({"stall_after": 12})
    await asyncio.gather(*[stopped(bench, at_tokens=12) for _ in range(6)])
    server.set_control({})
    [found] = await looked()
    assert (found.drift, found.seen) == (0, server.chunks_total)
    assert found.high - found.low == slack
    assert found.low <= found.seen
    [found] = await looked()
    assert (found.seen, found.low, found.high, found.drift) == (0, 0, 0, 0)
    stranger = LlamaCppEngine(server.url, {})
    await collect(stranger, engine_ask(max_tokens=33))
    await stranger.aclose()
    [found] = await looked()
    assert (found.drift, found.seen, found.high) == (33, 33, 0)
    assert "the engine counted 33 tokens, the rows 0 to 0" in found.message
    assert await asyncio.to_thread(reconcile_books) == 0, "each drift is told once"


async def test_rows_that_claim_more_than_the_engine_made_are_drift_below(bench, tmp_path, server):
    await added(tmp_path, "vllm", server.url)
    await looked()
    row, _ = await asked(bench, max_tokens=40)
    row.attempts[0]["generated_tokens"] += 7
    await threads.write(row.save)
    [found] = await looked()
    assert found.drift == -7


async def test_what_is_under_way_at_an_end_of_the_period_widens_its_bounds_and_is_no_drift(bench, tmp_path, server):
    await added(tmp_path, "vllm", server.url)
    await looked()
    server.set_control({"rate": 10})  # 6 s: it is under way when somebody looks
    ask = ask_of(bench, max_tokens=60)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens >= 5)
    [found] = await looked()
    assert (found.low, found.high, found.drift) == (0, 60, 0)
    assert found.seen >= 5
    first_seen = found.seen
    await bench.ended(response)
    [found] = await looked()
    assert (found.low, found.high, found.drift) == (0, 60, 0)
    assert found.seen == 60 - first_seen


async def test_an_engine_that_was_started_again_is_bounded_only_from_below(bench, tmp_path, server):
    await added(tmp_path, "vllm", server.url)
    await looked()
    await asked(bench, max_tokens=40)
    await looked()
    await asked(bench, max_tokens=30)
    server.chunks_total = 0  # it was killed, and began anew
    await asked(bench, max_tokens=10)
    [found] = await looked()
    assert (found.seen, found.low, found.high, found.drift) == (10, 0, 40, 0)
    assert "started again" in found.message
    server.chunks_total = 0
    stranger = LlamaCppEngine(server.url, {})
    await collect(stranger, engine_ask(max_tokens=9))
    await stranger.aclose()
    [found] = await looked()
    assert found.drift == 9, "what only a stranger can have asked for shows in the new life too"


async def test_an_engine_that_has_made_more_since_it_was_started_again_than_before_is_seen_to_have_begun_anew(
    bench, tmp_path, server
):
    await added(tmp_path, "llamacpp", server.url)
    await looked()
    await asked(bench, max_tokens=10)
    await looked()
    await asked(bench, max_tokens=30)
    server.chunks_total, server.life = 0, server.life + 1  # it was killed while it had nothing to do
    await asked(bench, max_tokens=20)
    [found] = await looked()
    assert (found.seen, found.low, found.high, found.drift) == (20, 0, 50, 0)
    assert "started again" in found.message
    await asked(bench, max_tokens=5)
    [found] = await looked()
    assert (found.seen, found.low, found.high, found.message) == (5, 5, 5, "")


async def test_the_token_by_which_a_schema_is_tried_is_no_drift(bench, tmp_path, server):
    await added(tmp_path, "llamacpp", server.url)
    await looked()
    await asked(bench, max_tokens=10, json_schema={"type": "object"}, options={"constrained": True})
    [found] = await looked()
    assert (found.seen, found.low, found.high, found.drift) == (11, 10, 11, 0)


async def test_what_a_lost_owner_asked_for_and_had_no_time_to_note_is_no_drift(bench, tmp_path, server):
    """Also when all that is left of its request is numbers."""
    await added(tmp_path, "llamacpp", server.url)
    await looked()
    row, _ = await asked(bench, max_tokens=40)
    row.attempts, row.request, row.epoch = [], {}, 2
    await threads.write(row.save)
    [found] = await looked()
    assert (found.seen, found.low, found.high, found.drift) == (40, 0, 1000, 0)


async def test_an_engine_that_does_not_answer_is_left_out_and_no_engine_without_counters_is_asked_for_any(
    bench, tmp_path, server
):
    await added(tmp_path, "vllm", server.url, "http://127.0.0.1:9")
    await looked()
    [found] = await looked()
    assert found.subject == "e0"
    assert await threads.run(lambda: Counter(EngineReading.objects.values_list("engine__name", flat=True))) == {"e0": 2}


@pytest.mark.engine
async def test_the_real_llama_cpp_agrees_also_after_aborts(bench, worker_url, demo_tokenizer):
    fields = {"kind": "llamacpp", "url": worker_url, "tokenizer": str(demo_tokenizer), "model": "m"}
    await threads.write(lambda: Engine.objects.create(name="real", slots=4, **fields))
    await looked()
    for _ in range(3):
        whole = [asked(bench, "Name three rivers.", max_tokens=16) for _ in range(2)]
        endless = {"text": "Count to a thousand.", "sampling": NO_END}
        await asyncio.gather(*whole, *[stopped(bench, worker_url, **endless) for _ in range(4)])
    [found] = await looked()
    ended = Counter(await threads.run(lambda: list(Response.objects.values_list("end_state", flat=True))))
    assert ended == {"completed": 6, "cancelled": 12}
    assert found.drift == 0, found.message
    assert found.low <= found.seen <= found.high == found.low + ended["cancelled"] * ledger.TOKENS_PER_ABORT


def test_a_bound_tells_which_way_and_how_far():
    assert [Bounds(10, 20).drift(seen) for seen in (5, 10, 15, 20, 23)] == [-5, 0, 0, 0, 3]


def make(user, **fields):
    fields = {"state": "ended", "end_state": "completed", "end_reason": "stop", "generated_tokens": 5} | fields
    return Response.objects.create(user=user, purpose="api", dialect="openai_chat", model="m", policy="abort", **fields)


def told(*arguments) -> tuple[int, list[dict]]:
    """Exit code and what the command prints as JSON."""
    out = StringIO()
    try:
        call_command("reconcile", "--json", *arguments, stdout=out)
    except CommandError:
        return 1, [json.loads(line) for line in out.getvalue().splitlines()]
    return 0, [json.loads(line) for line in out.getvalue().splitlines()]


def test_rollups_that_say_something_else_than_their_rows_drift(user):
    day = timezone.now() - timedelta(days=2)
    for _ in range(3):
        Response.objects.filter(id=make(user).id).update(created_at=day, ended_at=day)
    code, checks = told()
    assert code == 1
    [drifts] = [one for one in checks if one["drift"]]
    assert (drifts["kind"], drifts["subject"], drifts["drift"]) == ("rollup", day.date().isoformat(), -15)
    usage.roll_up(day.date())
    assert told()[0] == 0
    DailyUsage.objects.update(requests=4)
    code, checks = told()
    assert code == 1
    assert "rollups: 4 responses, 15 tokens; rows: 3, 15" in [one["message"] for one in checks]
    assert LedgerCheck.objects.exclude(drift=0).count() == 2


@pytest.mark.parametrize(
    ("created", "ended", "has_drift"),
    [
        ({"hours": 23, "minutes": 59}, None, False),
        ({"hours": 23, "minutes": 59}, {"days": 1, "minutes": 1}, False),
        ({"hours": 20}, {"days": 1, "minutes": 1}, True),
        ({"hours": 23, "minutes": 40}, {"hours": 23, "minutes": 41}, True),
    ],
)
def test_what_came_about_just_before_a_look_after_midnight_need_not_be_in_a_rollup_yet(user, created, ended, has_drift):
    """Rollups of the evening are made in the first minutes of the next day, and again when its last answers end."""
    day = datetime(2026, 3, 4, tzinfo=UTC)
    fields = {"ended_at": day + timedelta(**ended)} if ended else {"state": "running", "end_state": None}
    late = make(user, **{"end_reason": "" if ended is None else "stop"} | fields)
    Response.objects.filter(id=late.id).update(created_at=day + timedelta(**created))
    checks = ledger.check_rollups(day + timedelta(days=1, minutes=2))
    assert [check.subject for check in checks if check.drift] == (["2026-03-04"] if has_drift else [])
    usage.roll_up(day.date())
    assert not any(check.drift for check in ledger.check_rollups(day + timedelta(days=1, minutes=2)))


def test_a_row_without_an_end_that_is_older_than_any_can_be_drifts(user, settings):
    late = make(user, state="running", end_state=None, end_reason="")
    assert told()[0] == 0
    Response.objects.filter(id=late.id).update(created_at=timezone.now() - timedelta(hours=2))
    code, checks = told()
    assert code == 1
    # Two hours ago may have been another day, of which nothing is summed up.
    [drifts] = [one for one in checks if one["drift"] and one["kind"] != "rollup"]
    assert (drifts["kind"], drifts["seen"]) == ("unended", 1)
    assert late.id in drifts["message"]


def test_a_quota_that_counts_a_stream_that_does_not_run_drifts(user):
    quota = Quota.objects.create(user=user, concurrent_streams=3)
    use = QuotaUse.objects.create(quota=quota, streams=1)
    running = make(user, state="running", end_state=None, end_reason="", reserved={"uses": [use.pk]})
    assert told()[0] == 0
    running.delete()
    code, checks = told()
    assert code == 1
    assert [(one["subject"], one["drift"]) for one in checks if one["kind"] == "quota"] == [(f"{quota.pk}/0", 1)]


def test_since_takes_the_first_reading_from_then_on_and_refuses_what_is_no_time(user):
    engine = Engine.objects.create(name="e", kind="vllm", model="m", url="http://127.0.0.1:9")
    now = timezone.now()
    for hours in (3, 2, 1):
        EngineReading.objects.create(
            engine=engine, read_at=now - timedelta(hours=hours), generated_tokens=hours, prompt_tokens=0
        )
    assert ledger.reading_before(engine.pk, None).generated_tokens == 1
    assert ledger.reading_before(engine.pk, now - timedelta(hours=2, minutes=30)).generated_tokens == 2
    assert ledger.reading_before(engine.pk, now) is None
    with pytest.raises(CommandError, match="a time as"):
        call_command("reconcile", "--since", "yesterday")


def test_the_admin_shows_what_drifts(user, client):
    LedgerCheck.objects.create(kind="engine", subject="e-drifts", seen=9, drift=9)
    LedgerCheck.objects.create(kind="engine", subject="e-agrees", seen=9)
    client.force_login(User.objects.create_superuser("root"))
    html = client.get("/admin/streaming/ledgercheck/?drifts=yes").content.decode()
    assert "e-drifts" in html
    assert "e-agrees" not in html
