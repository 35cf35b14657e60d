"""Owns asking how the conversations of users stand: which answers have not ended, and what changed last."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Max

from streaming.models import Conversation, Response


@dataclass(slots=True)
class Stands:
    """``latest`` is how many conversations there are and when the newest of them changed."""

    running: set[str] = field(default_factory=set)
    latest: tuple[int, datetime | None] = (0, None)


def of(user_ids: Collection[int]) -> dict[int, Stands]:
    """Of each of the users: two queries for all of them."""
    stands = {user_id: Stands() for user_id in user_ids}
    rows = Conversation.objects.filter(user_id__in=user_ids).values("user_id").order_by()
    for user_id, count, latest in rows.annotate(n=Count("id"), at=Max("updated_at")).values_list("user_id", "n", "at"):
        stands[user_id].latest = count, latest
    unended = Response.objects.filter(user_id__in=user_ids, end_state__isnull=True, purpose=Response.Purpose.CHAT)
    for user_id, response_id in unended.values_list("user_id", "id"):
        stands[user_id].running.add(response_id)
    return stands
