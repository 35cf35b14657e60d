"""Owns the task that keeps daily usage true. The sums themselves are the store's."""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from streaming.store import usage


@shared_task(name="streaming.roll_up_usage")
def roll_up_usage(days_back: int = 0) -> int:
    """Sum up the days that may have changed, and so many before today whatever they are. Returns how many days."""
    today = timezone.now().date()
    again = {today - timedelta(days=count) for count in range(1, days_back + 1)}
    days = sorted(again | set(usage.days_to_roll_up(today)))
    for day in days:
        usage.roll_up(day)
    return len(days)
