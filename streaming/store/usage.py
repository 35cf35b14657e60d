"""Owns daily usage in the database: summed anew from responses as often as one likes. Does not decide when."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, DurationField, ExpressionWrapper, F, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from streaming.models import DailyUsage, Response
from streaming.models.usage import DIMENSIONS

from . import histograms, responses

TOKENS = (
    "prompt_tokens", "cached_tokens", "generated_tokens", "completion_tokens", "sent_tokens", "delivered_tokens",
)  # fmt: skip
TIMES_MS = ("queue_ms", "ttft_ms", "itl_p50_ms", "stop_ms")
#: The first of two numbers that name PostgreSQL's lock of a day's rollups; the second is the day.
LOCK = 0x5553_4147
DAY = timedelta(days=1)
MS = timedelta(milliseconds=1)

_ENDED_AFTER = ExpressionWrapper(F("ended_at") - F("created_at"), DurationField())
#: What is handed over whole has no first token: its time would be that of the whole answer.
_COUNTS_IF = {"ttft_ms": Q(stream=True)}
# Not named after columns: an annotation may not be.
_SUMS: dict[str, Any] = {
    "n": Count("id"),
    "estimated_requests": Count("id", filter=Q(usage_estimated=True)),
    "unproven_aborts": Count("id", filter=Q(abort_proven=False)),
    **{f"sum_{name}": Coalesce(Sum(name), 0) for name in TOKENS},
    **{f"{name}_sum": Coalesce(Sum(name, filter=_COUNTS_IF.get(name)), 0.0) for name in TIMES_MS},
    **{f"{name}_count": Count(name, filter=_COUNTS_IF.get(name)) for name in TIMES_MS},
    "lasted": Sum(_ENDED_AFTER),
    "duration_ms_count": Count("ended_at"),
}


def roll_up(day: date) -> int:
    """Sum up a day (UTC) anew; returns how many rollups it has now. The same rows give the same rollups."""
    with transaction.atomic():
        _lock(day)
        rollups = of_day(day)
        kept = [rollup.key for rollup in rollups]
        DailyUsage.objects.bulk_create(
            rollups, update_conflicts=True, unique_fields=["day", "key"], update_fields=_FIGURES
        )
        stale = [pk for pk, key in DailyUsage.objects.filter(day=day).values_list("pk", "key") if key not in set(kept)]
        DailyUsage.objects.filter(pk__in=stale).delete()
        histograms.roll_up(day)
    return len(rollups)


def days_to_roll_up(today: date) -> list[date]:
    """Those whose responses may have changed since they were summed up: a response counts for the day it began.

    Today and yesterday; all since the last that has rollups; earlier ones with responses that had not ended then.
    """
    latest = DailyUsage.objects.aggregate(day=Max("day"))["day"] or _first_day() or today
    first = min(latest, today - DAY)
    days = {first + count * DAY for count in range((today - first).days + 1)}
    return sorted(days | set(DailyUsage.objects.filter(end_state="").values_list("day", flat=True)))


def of_day(day: date) -> list[DailyUsage]:
    """What a day's rollups would be now, not stored."""
    return [_rollup(day, group) for group in _groups(day)]


def _first_day() -> date | None:
    created_at: datetime | None = Response.objects.aggregate(at=Min("created_at"))["at"]
    return created_at.astimezone(UTC).date() if created_at else None


def lock_days_of(rollups: QuerySet[DailyUsage]) -> None:
    """Until the transaction ends nobody sums up the days of these: who deletes what they name changes them all."""
    for day in rollups.order_by("day").values_list("day", flat=True).distinct():
        _lock(day)


def _lock(day: date) -> None:
    """Who comes second sums up after the first has written. SQLite lets only one write anyway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK, day.toordinal()])


def _groups(day: date) -> list[dict[str, Any]]:
    return list(responses.begun_on(day).values(*DIMENSIONS).annotate(**_SUMS))


def _rollup(day: date, group: dict[str, Any]) -> DailyUsage:
    lasted: timedelta | None = group.pop("lasted")
    tokens = {name: group.pop(f"sum_{name}") for name in TOKENS}
    group["end_state"] = group["end_state"] or ""
    return DailyUsage(
        day=day,
        key="|".join(str(group[name] if group[name] is not None else "-") for name in DIMENSIONS),
        requests=group.pop("n"),
        wasted_tokens=tokens["generated_tokens"] - tokens["delivered_tokens"],
        duration_ms_sum=lasted / MS if lasted else 0.0,
        **tokens,
        **group,
    )


_FIGURES = [
    field.name
    for field in DailyUsage._meta.concrete_fields
    if field.name not in {"id", "day", "key"} and field.attname not in DIMENSIONS
]
