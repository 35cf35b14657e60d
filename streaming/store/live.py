"""Owns what rows say of the responses that have not ended, whosever they are, for staff. Writes nothing."""

from typing import Any

from django.contrib.auth.models import User
from django.db.models import Sum

from streaming.models import ReaderPresence, Response, ResponseEvent

#: More than a person can watch.
SHOWN = 100


def running() -> dict[str, Any]:
    """The newest that have not ended, and how many there are in all.

    ``tokens`` are those stored so far; ``readers`` the ones that follow from other processes than the owner's.
    """
    unended = Response.objects.filter(end_state__isnull=True)
    rows = list(
        unended.order_by("-created_at").values(
            "id", "created_at", "state", "purpose", "model", "user__username", "engine__name", "stop_requested_at"
        )[:SHOWN]
    )
    ids = [row["id"] for row in rows]
    stored = ResponseEvent.objects.filter(response_id__in=ids).values_list("response_id").order_by()
    tokens = dict(stored.annotate(n=Sum("token_count")))
    followers = ReaderPresence.objects.filter(response_id__in=ids).values_list("response_id").order_by()
    readers = dict(followers.annotate(n=Sum("readers")))
    return {
        "total": unended.count() if len(rows) == SHOWN else len(rows),
        "rows": [
            {
                "id": row["id"],
                "created_at": row["created_at"].isoformat(),
                "user": row["user__username"] or "–",
                "model": row["model"],
                "engine": row["engine__name"] or "–",
                "purpose": row["purpose"],
                "state": "stopping" if row["stop_requested_at"] else row["state"],
                "tokens": tokens.get(row["id"], 0),
                "readers": readers.get(row["id"], 0),
            }
            for row in rows
        ],
    }


def find(response_id: str) -> Response | None:
    """Any response: who asks must have been checked to be staff that may stop it."""
    return Response.objects.filter(id=response_id).first()


def may(user_id: int, permission: str) -> bool:
    """Whether somebody is staff with a permission now, whatever was true when they came."""
    user = User.objects.filter(pk=user_id, is_active=True, is_staff=True).first()
    return user is not None and user.has_perm(permission)
