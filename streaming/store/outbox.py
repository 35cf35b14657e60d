"""Owns who has yet to be told of ended responses: rows written with the end, taken by a lease, kept until told.

Sends nothing. What is told holds no text.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from streaming.models import Response, WebhookDelivery, WebhookEndpoint

from . import clock

#: In a statement that ends a response: whether it has to be told to anybody. Probes are nobody's.
ANYBODY_LISTENS = (
    "streaming_response.purpose <> 'probe' AND EXISTS (SELECT 1 FROM streaming_webhookendpoint w WHERE w.enabled)"
)
EVENT_TYPE = "response.ended"
#: How long an endpoint may rest.
LONGEST_REST = timedelta(minutes=5)


def note_ended(response_id: str) -> None:
    """One row for each endpoint that listens now, inside the transaction of the end."""
    endpoints = list(WebhookEndpoint.objects.filter(enabled=True).values_list("id", flat=True))
    if not endpoints:
        return
    payload = payload_of(Response.objects.select_related("api_key").get(id=response_id))
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(endpoint_id=endpoint_id, response_id=response_id, payload=payload, due_at=Now())
        for endpoint_id in endpoints
    )


def payload_of(response: Response) -> dict[str, Any]:
    """What an endpoint is told: who, what it was, how it ended, what it used and cost."""
    return {
        "type": EVENT_TYPE,
        "timestamp": _iso(response.ended_at),
        "data": {
            "id": response.id,
            "user_id": response.user_id,
            "api_key_id": response.api_key_id,
            "api_key_prefix": response.api_key.prefix if response.api_key else None,
            "purpose": response.purpose,
            "dialect": response.dialect,
            "model": response.model,
            "created_at": _iso(response.created_at),
            "ended_at": _iso(response.ended_at),
            "end_state": response.end_state,
            "end_reason": response.end_reason,
            "finish_reason": response.finish_reason,
            "error_code": response.error_code or None,
            "usage": {
                "prompt_tokens": response.prompt_tokens,
                "cached_tokens": response.cached_tokens,
                "generated_tokens": response.generated_tokens,
                "completion_tokens": response.completion_tokens,
                "sent_tokens": response.sent_tokens,
                "delivered_tokens": response.delivered_tokens,
                "estimated": response.usage_estimated,
            },
            "cost": None if response.cost is None else format(response.cost.normalize(), "f"),
            "currency": response.currency or None,
        },
    }


def _iso(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


def take_due(per_endpoint: int, lease: timedelta) -> list[WebhookDelivery]:
    """Deliveries whose time has come, oldest first; nobody else gets them for the length of the lease.

    A worker that dies has only delayed its deliveries: they are due again when the lease is over.
    """
    now = clock.now()
    # Further ahead than anybody puts one is a moment that was written before the clock was set back.
    has_rested = Q(rests_until__isnull=True) | Q(rests_until__lte=now) | Q(rests_until__gt=now + 2 * LONGEST_REST)
    awake = WebhookEndpoint.objects.filter(has_rested, enabled=True)
    return [delivery for endpoint in awake for delivery in _take_due_of(endpoint, per_endpoint, now, lease)]


def _take_due_of(endpoint: WebhookEndpoint, count: int, now: datetime, lease: timedelta) -> list[WebhookDelivery]:
    with transaction.atomic():
        due = WebhookDelivery.objects.filter(endpoint=endpoint, state=WebhookDelivery.State.PENDING, due_at__lte=now)
        taken = list(due.select_for_update(skip_locked=True).order_by("due_at")[:count])
        ids = [delivery.pk for delivery in taken]
        WebhookDelivery.objects.filter(pk__in=ids).update(due_at=now + lease, attempts=F("attempts") + 1)
    for delivery in taken:
        delivery.endpoint = endpoint
        delivery.attempts += 1
    return taken


def is_well(endpoint_id: int) -> None:
    """The endpoint took something."""
    WebhookEndpoint.objects.filter(pk=endpoint_id, failed_rounds__gt=0).update(failed_rounds=0, rests_until=None)


def rests(endpoint_id: int, length: timedelta) -> None:
    """The endpoint took nothing of a round, and gets nothing for a while, LONGEST_REST at most."""
    until = clock.now() + min(length, LONGEST_REST)
    WebhookEndpoint.objects.filter(pk=endpoint_id).update(failed_rounds=F("failed_rounds") + 1, rests_until=until)


def told(delivery: WebhookDelivery, status: int) -> None:
    """The endpoint took it."""
    WebhookDelivery.objects.filter(pk=delivery.pk).update(
        state=WebhookDelivery.State.DELIVERED, ended_at=timezone.now(), last_status=status, last_error=""
    )


def failed(delivery: WebhookDelivery, error: str, status: int | None, again_in: timedelta | None) -> None:
    """It did not; None for ``again_in``: nobody tries again by itself. No-op where another worker was heard."""
    now = clock.now()
    fields: dict[str, Any] = {"last_error": error[:200], "last_status": status}
    if again_in is None:
        fields |= {"state": WebhookDelivery.State.DEAD, "ended_at": now}
    else:
        fields |= {"due_at": now + again_in}
    pending = WebhookDelivery.objects.filter(pk=delivery.pk, state=WebhookDelivery.State.PENDING)
    pending.filter(attempts=delivery.attempts).update(**fields)


def send_again(ids: Sequence[int]) -> int:
    """Deliveries that were given up, or done, are due once more."""
    return (
        WebhookDelivery.objects.filter(pk__in=ids)
        .exclude(state=WebhookDelivery.State.PENDING)
        .update(state=WebhookDelivery.State.PENDING, attempts=0, due_at=clock.now(), ended_at=None)
    )


def forget(before: datetime) -> int:
    """Remove what was delivered before that time; what was given up stays until somebody looks at it."""
    old = WebhookDelivery.objects.filter(state=WebhookDelivery.State.DELIVERED, ended_at__lt=before)
    return old.delete()[0]
