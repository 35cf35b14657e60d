"""Owns what pages of users and keys say of their use: sums of daily rollups. Counts no response itself."""

from datetime import timedelta

from django.db.models import Sum
from django.template.defaultfilters import pluralize

from streaming.models import DailyUsage

from .charts import number
from .usage_figures import today

DAYS = 30


def used_lately(**whose: int) -> str:
    """Responses and tokens of the last 30 days, given by the rollups' columns."""
    rows = DailyUsage.objects.filter(day__gt=today() - timedelta(days=DAYS), **whose)
    sums = rows.aggregate(
        n=Sum("requests"), read=Sum("prompt_tokens"), made=Sum("generated_tokens"), wasted=Sum("wasted_tokens")
    )
    if not sums["n"]:
        return "nothing"
    return (
        f"{number(sums['n'])} response{pluralize(sums['n'])}, "
        f"{number(sums['read'])} token{pluralize(sums['read'])} read, {number(sums['made'])} made, "
        f"{number(sums['wasted'])} of them wasted"
    )
