"""Owns the task that keeps daily usage true. The sums themselves are the store's."""

from datetime import date, timedelta

from django.utils import timezone

from streaming.store import usage

from .ticks import tick

#: Days that the nightly run sums up once more, whatever they are.
DAYS_BACK = 8


@tick("streaming.roll_up_usage", every_s=300)
def roll_up_usage() -> int:
    """Sum up the days that may have changed. Returns how many."""
    return _roll_up(set(usage.days_to_roll_up(timezone.now().date())))


@tick("streaming.roll_up_usage_again", every_s=3600)
def roll_up_usage_again() -> int:
    """The last days once more: figures of a closed day still rise when an old answer is read. Returns how many."""
    today = timezone.now().date()
    return _roll_up({today - timedelta(days=count) for count in range(1, DAYS_BACK + 1)})


def _roll_up(days: set[date]) -> int:
    for day in sorted(days):
        usage.roll_up(day)
    return len(days)
