"""The pool: the best engine of those that work, in turn, and nobody is told to come back at a time that is made up."""

import asyncio
from collections import Counter

import pytest
from django.utils import timezone

from streaming.engine.base import EngineError
from streaming.models import Engine
from streaming.pool import Overloaded, Pool, UnknownModel, Wish
from streaming.pool.health import EJECTED_MAX_S, EJECTED_S, FAILURES_MAX, SPREAD, Health
from streaming.pool.waiting import TOLD_MAX_S, ServiceRate

LOST = EngineError("upstream_lost", "gone")


def row(pk, slots=2, model="m", kind="scripted"):
    return Engine(pk=pk, name=f"e{pk}", kind=kind, model=model, slots=slots, url="http://127.0.0.1:9")


@pytest.fixture
def rows(monkeypatch):
    """The rows of the table; a test changes the list."""
    found = [row(1), row(2)]
    monkeypatch.setattr("streaming.store.engines.enabled", lambda: list(found))
    return found


@pytest.fixture
async def stands(monkeypatch):
    """The loop's clock stands: no engine is back before a test has asked who is left."""
    at = now()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: at)


async def pool_of(max_queued=10, processes=1):
    pool = Pool(max_queued, processes)
    await pool.refresh()
    return pool


class Held:
    """A lease that is kept until it is let go, or fails."""

    def __init__(self, pool, **wish):
        self.end = asyncio.get_running_loop().create_future()
        self.lease = None
        self.task = asyncio.create_task(self.hold(pool, Wish(**wish)))

    async def hold(self, pool, wish):
        async with pool.lease("m", wish) as lease:
            self.lease = lease
            await self.end

    @property
    def pk(self):
        return self.lease.row.pk if self.lease else None

    async def let_go(self, error=None):
        if not self.end.done():
            self.end.set_exception(error) if error else self.end.set_result(None)
        await asyncio.gather(self.task, return_exceptions=True)
        await settled()


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


async def held(pool, times, **wish):
    leases = [Held(pool, **wish) for _ in range(times)]
    await settled()
    return leases


async def fail(pool, pk, error=LOST, with_output=False):
    """One request that the engine of this key fails."""
    others = [number for number in (1, 2) if number != pk]
    (one,) = await held(pool, 1, avoid=others)
    assert one.pk == pk
    if with_output:
        one.lease.progress(asyncio.get_running_loop().time())
    await one.let_go(error)


def now():
    return asyncio.get_running_loop().time()


async def test_the_least_loaded_is_taken_and_more_than_the_slots_wait(rows):
    rows[1] = row(2, slots=4)
    pool = await pool_of()
    leases = await held(pool, 8)
    assert Counter(one.pk for one in leases) == {1: 2, 2: 4, None: 2}
    await leases[0].let_go()
    assert leases[6].pk == leases[0].pk
    for one in leases:
        await one.let_go()


async def test_slots_are_divided_over_the_processes(rows):
    rows[:] = [row(1, slots=9)]
    pool = await pool_of(processes=4)
    leases = await held(pool, 3)
    assert [one.pk for one in leases] == [1, 1, None]
    rows[:] = [row(1, slots=1)]
    await pool.refresh(force=True)
    for one in leases:
        await one.let_go()
    assert [one.pk for one in await held(pool, 2)] == [1, None], "nobody is left without any"


async def test_users_take_turns_whoever_came_first(rows):
    rows[:] = [row(1, slots=1)]
    pool = await pool_of()
    (running,) = await held(pool, 1, user="a")
    waiting = [*await held(pool, 4, user="a"), *await held(pool, 1, user="b"), *await held(pool, 2, user="c")]
    order = []
    current = running
    while len(order) < 7:
        await current.let_go()
        current = next(one for one in waiting if one.pk and one not in order)
        order.append(current)
    assert [waiting.index(one) for one in order] == [0, 4, 5, 1, 6, 2, 3]
    await current.let_go()


async def test_one_who_leaves_the_queue_is_passed_over_and_one_who_leaves_as_it_is_served_takes_no_slot(rows):
    rows[:] = [row(1, slots=1)]
    pool = await pool_of()
    (running,) = await held(pool, 1)
    gone, late, last = await held(pool, 3)
    gone.task.cancel()
    await settled()
    late.task.cancel()
    running.end.set_result(None)  # in the same turn of the loop
    await asyncio.gather(running.task, late.task, return_exceptions=True)
    await settled()
    assert (gone.pk, late.pk, last.pk) == (None, None, 1)
    await last.let_go()
    assert [one.pk for one in await held(pool, 1)] == [1]


async def test_a_conversation_stays_with_the_engine_that_knows_it_unless_that_is_much_fuller(rows):
    rows[:] = [row(1, slots=4), row(2, slots=4)]
    pool = await pool_of()
    (first,) = await held(pool, 1, conversation="c")
    await first.let_go()
    mine, _ = first.pk, 3 - first.pk
    busy = await held(pool, 2, avoid=[3 - mine])
    (again,) = await held(pool, 1, conversation="c")
    assert again.pk == mine, "although the other is empty"
    await again.let_go()
    busy += await held(pool, 1, avoid=[3 - mine])
    (moved,) = await held(pool, 1, conversation="c")
    assert moved.pk == 3 - mine
    for one in [*busy, moved]:
        await one.let_go()


async def test_an_engine_that_refuses_connections_is_left_alone_at_once_and_others_go_on(rows, stands):
    pool = await pool_of()
    await fail(pool, 1)
    assert [one.pk for one in await held(pool, 3)] == [2, 2, None]


async def test_an_engine_that_dies_amid_answers_is_left_alone_after_a_few(rows, stands):
    pool = await pool_of()
    for _ in range(FAILURES_MAX):
        assert pool.others("m", ()) == rows
        await fail(pool, 1, with_output=False, error=EngineError("upstream_protocol", "nonsense"))
    assert pool.others("m", ()) == rows[1:]


async def test_a_success_between_them_forgets_the_failures(rows):
    pool = await pool_of()
    for _ in range(FAILURES_MAX * 3):
        await fail(pool, 1, with_output=True)
    assert pool.others("m", ()) == rows


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
async def test_what_a_caller_did_wrong_is_no_fault_of_the_engine(rows, status):
    pool = await pool_of()
    for _ in range(FAILURES_MAX * 3):
        await fail(pool, 1, EngineError("upstream_error", "refused", status))
    assert pool.others("m", ()) == rows


async def test_a_hung_engine_is_reported_by_the_timers(rows, stands):
    pool = await pool_of()
    for _ in range(FAILURES_MAX):
        (one,) = await held(pool, 1, avoid=[2])
        pool.hung("m", one.lease)
        await one.let_go()
    assert pool.others("m", ()) == rows[1:]


async def test_where_all_engines_fail_nobody_waits_for_a_better_one(rows, stands):
    pool = await pool_of()
    await fail(pool, 1)
    await fail(pool, 2)
    assert None not in [one.pk for one in await held(pool, 2)]


async def test_an_engine_that_comes_back_is_tried_by_one_and_gets_more_with_each_success(rows, monkeypatch):
    stands_at = now()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: stands_at)
    rows[:] = [row(1, slots=64), row(2, slots=1)]
    pool = await pool_of()
    await fail(pool, 1)
    leases = [*await held(pool, 1, avoid=[1]), *await held(pool, 40)]
    assert Counter(one.pk for one in leases) == {2: 1, None: 40}, "the one that works is full"
    stands_at += EJECTED_S * (1 + SPREAD)
    await settled()
    at_once = []
    for _ in range(4):
        trying = [one for one in leases if one.pk == 1 and not one.end.done()]
        at_once.append(len(trying))
        for one in trying:
            one.lease.progress(now())
        await trying[0].let_go()
    assert at_once[0] == 1, "nobody but the pool itself woke them, and only one"
    assert at_once == sorted(at_once)
    assert all(after <= 2 ** (sum(at_once[:nth]) + 1) for nth, after in enumerate(at_once)), "no stampede"
    for one in leases:
        await one.let_go()


async def test_a_row_that_is_disabled_gets_nothing_more_and_what_runs_there_runs_on(rows):
    pool = await pool_of()
    leases = await held(pool, 4)
    gone = rows.pop(0)
    await pool.refresh(force=True)
    (waiting,) = await held(pool, 1)
    await next(one for one in leases if one.pk == gone.pk).let_go()
    assert waiting.pk is None
    await next(one for one in leases if one.pk == rows[0].pk and not one.end.done()).let_go()
    assert waiting.pk == rows[0].pk
    for one in [*leases, waiting]:
        await one.let_go()


async def test_a_row_that_is_disabled_and_enabled_again_has_the_slots_in_use_that_it_had(rows):
    pool = await pool_of()
    leases = await held(pool, 4)
    gone = rows.pop(0)
    await pool.refresh(force=True)
    rows.append(gone)
    await pool.refresh(force=True)
    (waiting,) = await held(pool, 1)
    assert waiting.pk is None, "a slot was given out twice"
    await next(one for one in leases if one.pk == gone.pk).let_go()
    assert waiting.pk == gone.pk
    for one in [*leases, waiting]:
        await one.let_go()


async def test_a_prompt_of_ids_goes_to_no_engine_that_takes_messages(rows):
    rows[:] = [row(1, kind="openai", slots=9), row(2, slots=1)]
    pool = await pool_of()
    leases = await held(pool, 2, by_ids=True)
    assert [one.pk for one in leases] == [2, None]
    (other,) = await held(pool, 1)
    assert other.pk == 1, "whoever can be served does not wait for those who cannot"
    for one in [*leases, other]:
        await one.let_go()


async def test_a_stalled_engine_is_taken_last(rows, monkeypatch):
    rows[:] = [row(1, slots=9), row(2, slots=9)]
    pool = await pool_of()
    (stuck,) = await held(pool, 1, avoid=[2])
    (moving,) = await held(pool, 1, avoid=[1])
    monkeypatch.setattr("streaming.pool.seat.STALLED_S", -1.0)
    stuck.lease.seat.progress_at = now() - 5
    moving.lease.progress(now() + 5)
    more = await held(pool, 3)
    assert [one.pk for one in more] == [2, 2, 2]
    for one in [stuck, moving, *more]:
        await one.let_go()


async def test_models_do_not_share_slots_or_queues(rows):
    rows[1] = row(2, model="other")
    pool = await pool_of()
    leases = await held(pool, 3)
    async with pool.lease("other", Wish()) as lease:
        assert lease.row.pk == 2
    assert [one.pk for one in leases] == [1, 1, None]
    with pytest.raises(UnknownModel):
        await pool.row_for("none")


async def test_a_full_queue_is_said_with_a_time_and_each_who_is_refused_is_told_a_later_one(rows):
    rows[:] = [row(1, slots=2)]
    pool = await pool_of(max_queued=3)
    pool.check_room("m", 4)
    told = []
    for _ in range(4):
        with pytest.raises(Overloaded) as caught:
            pool.check_room("m", 5)
        told.append(caught.value.retry_after_s)
    assert told == sorted(set(told))


def test_those_who_are_refused_are_told_when_it_is_their_turn():
    rate = ServiceRate()
    rate.served(4.0)
    told = [rate.retry_after_s(waiting=8, slots=8, now=100.0) for _ in range(8)]
    assert told == [4.0 + nth * 0.5 for nth in range(1, 9)], "eight wait before them, each half a second"
    assert rate.retry_after_s(0, 8, now=150.0) == 1.0, "nobody waits any more"
    assert max(rate.retry_after_s(8, 1, now=200.0) for _ in range(500)) == TOLD_MAX_S


def test_the_first_measurement_replaces_the_guess_and_later_ones_are_smoothed():
    rate = ServiceRate()
    rate.served(1.0)
    assert rate.lease_s == 1.0
    rate.served(2.0)
    assert rate.lease_s == pytest.approx(1.2)


def test_ejections_grow_and_end_with_one_request():
    health, at = Health(), 0.0
    for nth in range(8):
        assert health.failed(at, at_once=True)
        assert not health.failed(at), "of many that fail together one counts"
        for_s = health.ejected_until - at
        expected = min(EJECTED_MAX_S, EJECTED_S * 2**nth)
        assert expected * (1 - SPREAD) <= for_s <= expected * (1 + SPREAD)
        assert health.room(64, at) == 0
        at = health.ejected_until
        assert health.room(64, at) == 1
    for room in (2, 4, 8, 16, 32, 64):
        health.succeeded()
        assert health.room(64, at) == room
    health.failed(at, at_once=True)
    assert health.ejected_until - at <= EJECTED_S * (1 + SPREAD), "whole again, it begins anew"


async def test_models_that_no_engine_can_answer_for_now_come_behind_the_others_and_drained_ones_are_not_on_offer(
    rows, stands
):
    rows[:] = [row(1, model="m"), row(2, model="first"), row(3, model="drained"), row(4, model="second")]
    rows += [row(5, model="second"), row(6, model="first")]
    rows[2].drain_started_at = rows[4].drain_started_at = timezone.now()
    pool = await pool_of()
    with pytest.raises(EngineError):
        async with pool.lease("m", Wish()):
            raise LOST  # before it said anything: it is gone
    offered = {model: [row.pk for row in engines] for model, engines in (await pool.on_offer()).items()}
    assert list(offered.items()) == [("first", [2, 6]), ("second", [4]), ("m", [1])]
    rows[2].drain_started_at = None
    await pool.refresh(force=True)
    assert list(await pool.on_offer()) == ["first", "drained", "second", "m"]
