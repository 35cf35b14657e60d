"""Rollups are the sums of the rows they stand for, however often and whenever they are computed."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streaming.models import ApiKey, DailyUsage, Engine, Response
from streaming.store import usage
from streaming.tasks.usage import roll_up_usage

DAY = date(2026, 3, 1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COUNTS = (*usage.TOKENS, "wasted_tokens")

sizes = st.integers(0, 10**6)
times_ms = st.none() | st.floats(0, 10**6)
rows = st.fixed_dictionaries(
    {
        "user": st.integers(0, 2),
        "has_key": st.booleans(),
        "has_engine": st.booleans(),
        "model": st.sampled_from(["m", "n|m"]),
        "purpose": st.sampled_from(Response.Purpose.values),
        "end_state": st.sampled_from([None, "completed", "abandoned"]),
        "hours": st.integers(-30, 30),
        "counts": st.lists(sizes, min_size=3, max_size=3).map(sorted),
        "prompt_tokens": st.none() | sizes,
        "cached_tokens": st.none() | sizes,
        "completion_tokens": sizes,
        "usage_estimated": st.booleans(),
        "abort_proven": st.none() | st.booleans(),
        "stream": st.booleans(),
        **dict.fromkeys(usage.TIMES_MS, times_ms),
    }
)


@pytest.fixture
def people(user):
    key = ApiKey.objects.create(user=user, prefix="sk-x", sha256="x")
    engine = Engine.objects.create(name="e", kind="scripted", model="m")
    return [None, user, User.objects.create_user("u2")], key, engine


def store(people, drawn) -> None:
    users, key, engine = people
    for row in map(dict, drawn):
        delivered, sent, generated = row.pop("counts")
        created_at = NOON + timedelta(hours=row.pop("hours"))
        ended = row["end_state"] is not None
        response = Response.objects.create(
            user=users[row.pop("user")],
            api_key=key if row.pop("has_key") else None,
            engine=engine if row.pop("has_engine") else None,
            dialect="openai_chat", policy="abort", state="ended" if ended else "running",
            ended_at=created_at + timedelta(milliseconds=1500) if ended else None,
            delivered_tokens=delivered, sent_tokens=sent, generated_tokens=generated, **row,
        )  # fmt: skip
        Response.objects.filter(id=response.id).update(created_at=created_at)


def by_hand(day: date) -> dict[tuple, Counter]:
    """The same sums without SQL."""
    sums: dict[tuple, Counter] = {}
    for row in Response.objects.all():
        if row.created_at.date() != day:
            continue
        key = (row.user_id, row.api_key_id, row.model, row.engine_id, row.purpose, row.end_state or "")
        total = sums.setdefault(key, Counter())
        total["requests"] += 1
        total["estimated_requests"] += row.usage_estimated
        total["unproven_aborts"] += row.abort_proven is False
        for name in COUNTS:
            total[name] += getattr(row, name) or 0
        for name in usage.TIMES_MS:
            value = getattr(row, name) if row.stream or name != "ttft_ms" else None
            total[f"{name}_sum"] += value or 0
            total[f"{name}_count"] += value is not None
        total["duration_ms_sum"] += 1500 if row.end_state else 0
        total["duration_ms_count"] += row.end_state is not None
    return sums


def rolled_up(day: date) -> dict[tuple, DailyUsage]:
    found = DailyUsage.objects.filter(day=day)
    return {(u.user_id, u.api_key_id, u.model, u.engine_id, u.purpose, u.end_state): u for u in found}


def check(day: date) -> None:
    expected, found = by_hand(day), rolled_up(day)
    assert found.keys() == expected.keys()
    assert DailyUsage.objects.filter(day=day).count() == len(expected)
    for key, total in expected.items():
        for name, value in total.items():
            assert getattr(found[key], name) == pytest.approx(value, rel=1e-9), (key, name)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(first=st.lists(rows, max_size=8), second=st.lists(rows, max_size=4))
def test_rollups_equal_the_rows_at_any_time_and_computed_any_number_of_times(people, first, second):
    Response.objects.all().delete()
    store(people, first)
    for drawn in (second, []):
        for _ in range(2):
            assert usage.roll_up(DAY) == len(by_hand(DAY))
            check(DAY)
        store(people, drawn)


def run_at(monkeypatch, today: date) -> int:
    noon = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    monkeypatch.setattr("django.utils.timezone.now", lambda: noon)
    return roll_up_usage()


def one(**fields) -> dict:
    row = {"user": 1, "has_key": False, "has_engine": False, "model": "m", "purpose": "api", "end_state": None}
    return {**row, "hours": 0, "counts": [1, 2, 3], **fields}


def test_an_end_that_comes_days_later_still_counts_for_the_day_its_answer_began(people, monkeypatch):
    store(people, [one(), one(end_state="completed")])
    run_at(monkeypatch, DAY)
    run_at(monkeypatch, DAY + timedelta(days=9))
    assert {u.end_state for u in DailyUsage.objects.filter(day=DAY)} == {"", "completed"}
    Response.objects.filter(end_state=None).update(
        state="ended", end_state="completed", ended_at=NOON + timedelta(milliseconds=1500)
    )
    run_at(monkeypatch, DAY + timedelta(days=10))
    (rollup,) = DailyUsage.objects.filter(day=DAY)
    assert (rollup.end_state, rollup.requests, rollup.generated_tokens) == ("completed", 2, 6)
    check(DAY)


def test_the_first_run_and_one_after_a_week_of_rest_leave_no_day_out(people, monkeypatch):
    store(people, [one(end_state="completed", hours=24 * day) for day in (0, 2, 6)])
    run_at(monkeypatch, DAY + timedelta(days=2))
    run_at(monkeypatch, DAY + timedelta(days=8))
    days = set(DailyUsage.objects.values_list("day", flat=True))
    assert days == {DAY + timedelta(days=day) for day in (0, 2, 6)}
    for day in days:
        check(day)


def test_a_quiet_day_costs_the_same_few_queries_however_old_the_site_is(
    people, monkeypatch, django_assert_max_num_queries
):
    store(people, [one(end_state="completed", hours=-24 * day) for day in range(40)])
    run_at(monkeypatch, DAY)
    with django_assert_max_num_queries(30):
        assert run_at(monkeypatch, DAY + timedelta(days=1)) == 2
