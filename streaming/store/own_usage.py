"""Owns what one user may see of their own use: answers and tokens by day and model. The sums of all are usage's."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import TruncDate

from streaming.models import DailyUsage, Response
from streaming.protocol.end_state import REJECTED

from .usage import DAY

#: What a person asked for. Titles and probes are ours.
PURPOSES = (Response.Purpose.CHAT, Response.Purpose.API, Response.Purpose.BATCH)
DAYS_MAX = 366


@dataclass(frozen=True, slots=True)
class Used:
    """What a user's answers of one model took on one day (UTC)."""

    day: date
    model: str
    answers: int
    prompt_tokens: int
    completion_tokens: int


def of_days(user: User, today: date, days: int) -> list[Used]:
    """The last ``days`` days up to today, latest first; days and models without an answer are left out.

    The rollups of today and yesterday may not have been made yet: these are summed up from the responses themselves.
    """
    yesterday = today - DAY
    first = today - timedelta(days=days - 1)
    rollups = DailyUsage.objects.filter(user=user, purpose__in=PURPOSES, day__gte=first, day__lt=yesterday)
    start = datetime.combine(max(first, yesterday), time(), UTC)
    rows = Response.objects.filter(user=user, purpose__in=PURPOSES, created_at__gte=start)
    fresh = rows.annotate(day=TruncDate("created_at", tzinfo=UTC))
    used = [*_sums(rollups, Sum("requests")), *_sums(fresh, Count("id"))]
    return sorted(used, key=lambda one: (-one.day.toordinal(), one.model))


def _sums(rows: QuerySet[Any], answers: Sum | Count) -> Iterable[Used]:
    asked = rows.exclude(end_state=REJECTED).order_by()
    sums = asked.values_list("day", "model").annotate(answers, Sum("prompt_tokens"), Sum("completion_tokens"))
    return (Used(day, model, count, prompt or 0, completion or 0) for day, model, count, prompt, completion in sums)
