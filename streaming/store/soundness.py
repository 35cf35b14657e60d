"""Owns what the rows say of the whole site's soundness, for operators: few numbers, cheap to ask for. Mends nothing."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Sum
from django.db.models.functions import Abs
from django.utils import timezone

from streaming.models import LedgerCheck, Response

from .attempts import RELAY_LOST

#: The checks of one look are stored together; so far apart may their times be.
ONE_LOOK = timedelta(minutes=2)
#: Counting stops here: more is as bad.
COUNTED_MAX = 1000
LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Soundness:
    """``overdue``: responses without an end that are older than any can be. ``relay_lost``: those of the last hour that
    nobody carried on, by whoever ended them. ``drift`` by kind, of the last look at the books, ``checked_at`` then."""

    overdue: int
    relay_lost: int
    drift: dict[str, int]
    checked_at: datetime | None


def soundness(oldest: timedelta) -> Soundness:
    """Four queries, each along an index; ``oldest`` is the age that no response without an end can have."""
    now = timezone.now()
    overdue = Response.objects.filter(end_state__isnull=True, created_at__lt=now - oldest)
    lost = Response.objects.filter(end_reason=RELAY_LOST, created_at__gte=now - LATELY)
    checked_at = LedgerCheck.objects.aggregate(at=Max("checked_at"))["at"]
    return Soundness(overdue[:COUNTED_MAX].count(), lost[:COUNTED_MAX].count(), _drift(checked_at), checked_at)


def _drift(checked_at: datetime | None) -> dict[str, int]:
    if checked_at is None:
        return {}
    checks = LedgerCheck.objects.filter(checked_at__gte=checked_at - ONE_LOOK)
    sums = checks.order_by().values_list("kind").annotate(total=Sum(Abs("drift")))
    return {kind: int(total) for kind, total in sums}
