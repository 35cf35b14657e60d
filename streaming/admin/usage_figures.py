"""Owns what the usage dashboard knows: rollups up to yesterday, and today's responses themselves. Draws nothing."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.contrib.auth.models import User
from django.db.models import BigIntegerField, Case, F, Q, Sum, Value, When
from django.utils import timezone

from streaming.models import ApiKey, DailyHistogram, DailyUsage, Engine, ModelPrice, Response
from streaming.store import histograms, usage
from streaming.store.histograms import percentile

DAY = timedelta(days=1)
DAYS_MAX = 366
#: Before there was nothing to count; days before the calendar's first are none.
EARLIEST = date(2000, 1, 1)
#: What figures can be grouped by, and the rollups' column of it.
GROUPS = {
    "end_state": "end_state", "model": "model", "purpose": "purpose", "engine": "engine_id", "user": "user_id",
    "key": "api_key_id",
}  # fmt: skip
#: Groups of callers, to which nobody's tests of engines do not belong; the value that stands for these.
CALLERS = ("user", "key")
PROBES = -1
NOT_ENDED = "not ended"
GONE = "deleted"


@dataclass(slots=True)
class Sums:
    """Responses and their tokens."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    completion_tokens: int = 0
    delivered_tokens: int = 0
    wasted_tokens: int = 0

    def add(self, other: "Sums") -> None:
        """Add another's to these."""
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


NAMES = tuple(one.name for one in fields(Sums))
Days = dict[date, dict[Any, Sums]]


def today() -> date:
    """The day it is, as rollups count days."""
    return timezone.now().astimezone(UTC).date()


@dataclass(frozen=True, slots=True)
class Span:
    """Days (UTC), both ends included, and the model that is looked at, or all.

    ``asked_on`` is the day that counts as today until all is read: one that ended in between would be in both, what is
    stored and what is counted now, or in neither.
    """

    first: date
    last: date
    model: str = ""
    asked_on: date = field(default_factory=today)

    @property
    def days(self) -> list[date]:
        """Every day of it."""
        return [self.first + n * DAY for n in range((self.last - self.first).days + 1)]


def span_of(query: Mapping[str, str]) -> Span:
    """The days that an address names: ``days`` back from today, or ``since`` and ``until``. Nonsense is 30 days."""
    now = today()
    first, last = (_date(query.get(name, "")) for name in ("since", "until"))
    days = query.get("days", "")
    if first is None:
        back = int(days) if days.isdecimal() and len(days) < 5 and 0 < int(days) <= DAYS_MAX else 30
        first = now - (back - 1) * DAY
    last = min(last or now, now)
    first = max(min(first, last), last - (DAYS_MAX - 1) * DAY)
    return Span(first, last, query.get("model", "")[:200], now)


def _date(value: str) -> date | None:
    try:
        return max(EARLIEST, datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC).date())
    except ValueError:
        return None


class Figures:
    """The figures of a span; each is read once, when it is first asked for."""

    def __init__(self, span: Span):
        self.span = span

    @cached_property
    def _today(self) -> list[DailyUsage]:
        """Today's, from the responses: the rollups are minutes behind."""
        rows = usage.of_day(self.span.last) if self.span.last == self.span.asked_on else []
        return [row for row in rows if self.span.model in ("", row.model)]

    @cached_property
    def _today_counted(self) -> list[histograms.Row]:
        rows = histograms.counted(self.span.last) if self.span.last == self.span.asked_on else []
        return [row for row in rows if self.span.model in ("", row[0])]

    def _stored(self, rows: Any) -> Any:
        rows = rows.filter(day__gte=self.span.first, day__lte=self.span.last).exclude(day=self.span.asked_on)
        return rows.filter(model=self.span.model) if self.span.model else rows

    def _by_value(self, group: str) -> Any:
        """The rollups with the value of a group as ``value``."""
        value: Any = F(GROUPS[group])
        if group in CALLERS:
            probes = Q(purpose=Response.Purpose.PROBE, **{f"{GROUPS[group]}__isnull": True})
            value = Case(When(probes, then=Value(PROBES)), default=value, output_field=BigIntegerField())
        return self._stored(DailyUsage.objects.order_by()).annotate(value=value)

    def by_day(self, group: str) -> Days:
        """Sums by day and the value of a group, which is an id for users, keys and engines."""
        rows = self._by_value(group).values_list("day", "value")
        days: Days = {day: defaultdict(Sums) for day in self.span.days}
        for day, value, *sums in rows.annotate(**{f"n_{name}": Sum(name) for name in NAMES}):
            days[day][value] = Sums(*sums)
        for row in self._today:
            days[row.day][_value(row, group)].add(_sums_of(row))
        return days

    def totals(self, group: str) -> dict[Any, Sums]:
        """Sums by the value of a group, most tokens first; days need not be told apart, which is half the work."""
        rows = self._by_value(group).values_list("value")
        totals: dict[Any, Sums] = defaultdict(Sums)
        for value, *sums in rows.annotate(**{f"n_{name}": Sum(name) for name in NAMES}):
            totals[value] = Sums(*sums)
        for row in self._today:
            totals[_value(row, group)].add(_sums_of(row))
        return _most_first(totals)

    def counts_by_day(self, figure: str) -> dict[date, dict[int, int]]:
        """The histogram of a time, by day."""
        rows = self._stored(DailyHistogram.objects.order_by()).filter(figure=figure)
        days: dict[date, dict[int, int]] = {day: defaultdict(int) for day in self.span.days}
        for day, bucket, count in rows.values_list("day", "bucket").annotate(n=Sum("count")):
            days[day][bucket] += count
        for _, name, _, bucket, count in self._today_counted:
            if name == figure:
                days[self.span.last][bucket] += count
        return days

    def counts_by_part(self, figure: str) -> dict[str, dict[int, int]]:
        """The histogram of a figure, by what it is split by."""
        rows = self._stored(DailyHistogram.objects.order_by()).filter(figure=figure)
        parts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for part, bucket, count in rows.values_list("part", "bucket").annotate(n=Sum("count")):
            parts[part][bucket] += count
        for _, name, part, bucket, count in self._today_counted:
            if name == figure:
                parts[part][bucket] += count
        return parts


def summed(days: Days) -> dict[Any, Sums]:
    """The days of each value put together, most tokens first."""
    totals: dict[Any, Sums] = defaultdict(Sums)
    for day in days.values():
        for value, sums in day.items():
            totals[value].add(sums)
    return _most_first(totals)


def _value(row: DailyUsage, group: str) -> Any:
    value = getattr(row, GROUPS[group])
    is_probe = group in CALLERS and value is None and row.purpose == Response.Purpose.PROBE
    return PROBES if is_probe else value


def _sums_of(row: DailyUsage) -> Sums:
    return Sums(*(getattr(row, name) for name in NAMES))


def _most_first(totals: Mapping[Any, Sums]) -> dict[Any, Sums]:
    return dict(sorted(totals.items(), key=lambda item: (-item[1].generated_tokens, -item[1].requests)))


def percentiles(buckets: Mapping[int, int], shares: tuple[float, ...]) -> list[float | None]:
    """Several percentiles of one histogram, in milliseconds."""
    return [percentile(buckets, share) for share in shares]


def output_prices(span: Span) -> dict[str, tuple[str, Decimal]]:
    """Currency and price of a million tokens of answers, by model, as of the last day."""
    end = datetime.combine(span.last + DAY, time(), UTC)
    rows = ModelPrice.objects.filter(valid_from__lt=end).order_by("valid_from")
    return {
        model: (currency, price) for model, currency, price in rows.values_list("model", "currency", "output_price")
    }


def names_of(group: str, values: list[Any]) -> dict[Any, str]:
    """What people call the values of a group."""
    ids = [value for value in values if value is not None]
    found: dict[Any, str] = {}
    if group == "user":
        found = dict(User.objects.filter(id__in=ids).values_list("id", "username"))
    elif group == "key":
        rows = ApiKey.objects.filter(id__in=ids).values_list("id", "prefix", "name", "user__username")
        found = {pk: f"{prefix}… {name} ({user})".replace("…  (", "… (") for pk, prefix, name, user in rows}
    elif group == "engine":
        found = dict(Engine.objects.filter(id__in=ids).values_list("id", "name"))
    else:
        return {value: value or NOT_ENDED for value in values}
    nobody = {"user": "nobody", "key": "the page", "engine": "none"}[group]
    found |= {None: nobody, PROBES: "tests of engines"}
    return {value: found.get(value, GONE) for value in values}
