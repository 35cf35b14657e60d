"""Owns what the rows say for the ledger, and the bounds between which other books must lie. Asks no engine.

An attempt counts tokens without saying when each was made. So what a response made that was under way at an end of the
period may lie on either side of it: it widens the bounds, and a period with quiet ends has narrow ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, Q, Subquery, Sum
from django.utils import timezone

from streaming.models import DailyUsage, Engine, EngineReading, LedgerCheck, QuotaSettlement, QuotaUse, Response

from . import responses
from .attempts import EXACT, RELAY_LOST, epoch_of

#: Who aborts llama.cpp by closing the socket does not see what it makes until it notices.
TOKENS_PER_ABORT = 4
TOKENS_PER_TRIAL = 1
#: How long a response can have been under way before it ended, adopted ones included.
LONGEST = timedelta(hours=24)
DAYS_BACK = 7
#: Rollups may be behind their rows by what the task that makes them each 5 minutes has not seen, also in a long queue.
ROLLUPS_LAG = timedelta(minutes=15)
KEEP = timedelta(days=90)


@dataclass(slots=True)
class Bounds:
    """Of what an engine can have made in a period, by the rows; ``high`` counts what may have gone unseen."""

    low: int = 0
    high: int = 0

    def add(self, sure: int, at_most: int) -> None:
        self.low += sure
        self.high += at_most

    def drift(self, seen: int) -> int:
        """By how much it is out of them."""
        return max(0, seen - self.high) - max(0, self.low - seen)


@dataclass(frozen=True, slots=True)
class Period:
    """Between two readings of an engine's counter. Clocks of processes differ: what is within ``skew`` of an end is at
    both sides of it."""

    since: datetime
    until: datetime
    skew: timedelta

    def is_inside(self, created_at: datetime, ended_at: datetime | None) -> bool:
        """Whether all of a response lies in the period."""
        begins = created_at >= self.since + self.skew
        return begins and ended_at is not None and ended_at <= self.until - self.skew


class Lived(NamedTuple):
    """What a response's row says of the engines that worked for it."""

    created_at: datetime
    ended_at: datetime | None
    model: str
    epoch: int
    attempts: list[dict[str, Any]]
    engine_id: int | None
    max_tokens: int | None
    constrained: bool | None


def bounds(engine: Engine, period: Period) -> Bounds:
    """By the attempts at the engine of all responses that lived in the period."""
    found = Bounds()
    for lived in _living_in(period):
        most = lived.max_tokens or engine.context_tokens  # of what was erased no limit is known
        inside = period.is_inside(lived.created_at, lived.ended_at)
        for attempt in lived.attempts:
            if attempt["engine_id"] == engine.pk:
                made = attempt["generated_tokens"]
                found.add(made if inside else 0, made + _unseen(attempt, most) + _tried(lived, engine))
        if lived.ended_at is None and lived.engine_id == engine.pk:
            found.add(0, most)
        if lived.model == engine.model and _lost_unnoted(lived):
            found.add(0, most)
    return found


def _living_in(period: Period) -> Iterator[Lived]:
    rows = Response.objects.filter(
        created_at__gte=period.since - LONGEST, created_at__lte=period.until + period.skew
    ).order_by()
    columns = rows.values_list(*Lived._fields[:-2], "request__max_tokens", "request__options__constrained")
    for lived in map(Lived._make, columns.iterator(2000)):
        if lived.ended_at is None or lived.ended_at >= period.since - period.skew:
            yield lived


def _unseen(attempt: dict[str, Any], most: int) -> int:
    """What the engine may have made beyond the attempt's count."""
    if attempt["count"] == EXACT:
        return 0
    # Nobody of ours was there to see the socket close.
    return max(0, most - attempt["generated_tokens"]) if attempt["ended"] == RELAY_LOST else TOKENS_PER_ABORT


def _tried(lived: Lived, engine: Engine) -> int:
    """Whether llama.cpp makes a grammar of a schema is found out with a token that is part of no answer."""
    return TOKENS_PER_TRIAL if engine.kind == "llamacpp" and lived.constrained else 0


def _lost_unnoted(lived: Lived) -> bool:
    """Whether an owner was lost that may have asked an engine and had no time to write that down."""
    known = {epoch_of(attempt["request_id"]) for attempt in lived.attempts}
    # Who only ended it, or asks just now, has no attempt in the row.
    asked = lived.epoch if lived.epoch in known else lived.epoch - 1
    return len(known) < asked


def reading_before(engine_id: int, since: datetime | None) -> EngineReading | None:
    """The last one; with ``since`` the first from then on."""
    readings = EngineReading.objects.filter(engine_id=engine_id).order_by("read_at")
    return readings.filter(read_at__gte=since).first() if since else readings.last()


def check_engine(earlier: EngineReading, reading: EngineReading, skew: timedelta) -> LedgerCheck:
    """What the engine counted between two readings against the rows.

    A counter that began anew leaves out what the life before it made: then it bounds the rows only from below.
    """
    found = bounds(reading.engine, Period(earlier.read_at, reading.read_at, skew))
    began_anew = reading.generated_tokens < earlier.generated_tokens or reading.life != earlier.life
    if began_anew:
        found.low = 0
    seen = reading.generated_tokens - (0 if began_anew else earlier.generated_tokens)
    drift = found.drift(seen)
    message = "The engine was started again: only a lower bound of what it made." if began_anew else ""
    if drift:
        message = f"the engine counted {seen} tokens, the rows {found.low} to {found.high}. {message}".strip()
    return LedgerCheck(
        kind="engine",
        subject=reading.engine.name,
        since=earlier.read_at,
        until=reading.read_at,
        low=found.low,
        high=found.high,
        seen=seen,
        drift=drift,
        message=message,
    )


def check_unended(oldest: timedelta) -> LedgerCheck:
    """Responses without an end that are older than any can be."""
    until = timezone.now() - oldest
    late = list(Response.objects.filter(end_state__isnull=True, created_at__lt=until).order_by("id")[:1000])
    message = f"without an end since before {until:%Y-%m-%d %H:%M}: {late[0].id}" if late else ""
    return LedgerCheck(kind="unended", until=until, low=0, high=0, seen=len(late), drift=len(late), message=message)


def check_rollups(now: datetime) -> list[LedgerCheck]:
    """The daily rollups of the last days that are over against the responses of those days."""
    days = [now.astimezone(UTC).date() - timedelta(days=count) for count in range(1, DAYS_BACK + 1)]
    return [_check_rollup(day, now - ROLLUPS_LAG) for day in reversed(days)]


def _check_rollup(day: date, summed_at: datetime) -> LedgerCheck:
    """What began or ended after ``summed_at`` may be in the rollups or not: a day is over while answers of it run."""
    have = responses.begun_on(day).aggregate(
        n=Count("id"),
        sure_n=Count("id", filter=Q(created_at__lt=summed_at)),
        tokens=Sum("generated_tokens", default=0),
        sure_tokens=Sum("generated_tokens", filter=Q(ended_at__lt=summed_at), default=0),
    )
    sums = DailyUsage.objects.filter(day=day).aggregate(
        n=Sum("requests", default=0), tokens=Sum("generated_tokens", default=0)
    )
    low, high, seen = have["sure_tokens"], have["tokens"], sums["tokens"]
    drift = Bounds(low, high).drift(seen) or Bounds(have["sure_n"], have["n"]).drift(sums["n"])
    message = f"rollups: {sums['n']} responses, {seen} tokens; rows: {have['n']}, {high}" if drift else ""
    return LedgerCheck(
        kind="rollup",
        subject=day.isoformat(),
        since=datetime.combine(day, time(), UTC),
        low=low,
        high=high,
        seen=seen,
        drift=drift,
        message=message,
    )


def check_quotas() -> list[LedgerCheck]:
    """Streams that quotas count against responses that have not ended."""
    return [_check_use(use_id) for use_id in QuotaUse.objects.order_by("id").values_list("id", flat=True)]


@transaction.atomic
def _check_use(use_id: int) -> LedgerCheck:
    """Nobody reserves or folds meanwhile; an end that comes in between is in both, or in the second look only."""
    use = QuotaUse.objects.select_related("quota").select_for_update(of=("self",)).get(id=use_id)
    reserved = Response.objects.filter(end_state__isnull=True, reserved__isnull=False)
    taken = reserved.values_list("reserved", flat=True)
    running = sum(use_id in one["uses"] for one in taken if one is not None)
    seen = use.streams - QuotaSettlement.objects.filter(use_id=use_id).count()
    drift = max(0, seen - running)
    message = f"{seen} streams are counted, {running} run" if drift else ""
    return LedgerCheck(
        kind="quota", subject=f"{use.quota_id}/{use.member}", low=0, high=running, seen=seen, drift=drift,
        message=message,
    )  # fmt: skip


def keep(checks: Sequence[LedgerCheck]) -> None:
    """Store what was found, and forget what is old."""
    now = timezone.now()
    old = now - KEEP
    for check in checks:
        check.checked_at = now
    with transaction.atomic():
        LedgerCheck.objects.bulk_create(checks)
        LedgerCheck.objects.filter(checked_at__lt=old).delete()
        EngineReading.objects.filter(read_at__lt=old).delete()


def drifts() -> list[LedgerCheck]:
    """What did not agree at the last comparison."""
    last = LedgerCheck.objects.order_by("-checked_at").values("checked_at")[:1]
    return list(LedgerCheck.objects.filter(checked_at=Subquery(last)).exclude(drift=0).order_by("id"))
