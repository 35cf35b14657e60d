"""Owns the rows of responses once they are stored, up to their one end. Does not decide how a response ends."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from streaming.models import Response
from streaming.protocol.end_state import End

from . import settling

ID_FORMAT = re.compile(r"resp_[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ending:
    """Everything that is written with the end state, in the same transaction.

    ``is_unproven``: an engine was left that has not shown that it stopped; it is asked again.
    """

    end: End
    figures: Mapping[str, Any] = field(default_factory=dict)
    is_unproven: bool = False


def begun_on(day: date) -> QuerySet[Response]:
    """Those that count for a day (UTC)."""
    start = datetime.combine(day, time(), UTC)
    return Response.objects.filter(created_at__gte=start, created_at__lt=start + timedelta(days=1)).order_by()


def end(response_id: str, epoch: int, seq: int, ending: Ending) -> bool:
    """Write the end state if nobody has: one winner by compare-and-set on state and epoch.

    Must run inside a transaction that also stores the ended event. Returns whether this call won; then what hangs on
    the end (quotas, cost, webhooks) is settled with it.
    """
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    fields = {
        "state": Response.State.ENDED.value,
        "ended_at": now,
        "unproven_since": now if ending.is_unproven else None,
        "last_seq": seq,
        "prompt_ids": None,
        **end_fields(ending.end),
        **ending.figures,
    }
    columns = ", ".join(f"{column} = {_placed(column)}" for column in fields)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE streaming_response SET {columns} WHERE id = %s AND epoch = %s AND end_state IS NULL"  # noqa: S608
            f" RETURNING {settling.RETURNING}",
            [*fields.values(), response_id, epoch],
        )
        ended = cursor.fetchone()
    if ended is not None:
        settling.settle(response_id, settling.Ended(*ended))
    return ended is not None


def _placed(column: str) -> str:
    """Nothing ends before it began: a clock may be set back meanwhile, or be another process's."""
    if column != "ended_at":
        return "%s"
    return f"{'MAX' if connection.vendor == 'sqlite' else 'GREATEST'}(created_at, %s)"


def end_fields(end: End) -> dict[str, Any]:
    """What a row says of its end."""
    error = end.to_payload({})["error"] or {"code": "", "message": ""}
    return {
        "end_state": end.end_state,
        "end_reason": end.end_reason,
        "finish_reason": end.finish_reason,
        "error_code": error["code"],
        "error_message": error["message"],
    }


class Started(NamedTuple):
    """An engine took a response; ``attempts`` are those before, as JSON."""

    engine_id: int
    queue_ms: float
    attempts: str
    response_id: str
    epoch: int


class Delivered(NamedTuple):
    """What readers of an ended response took since the end, and when the first of it left."""

    delivered_tokens: int
    ttft_ms: float | None
    response_id: str


def mark_started(notes: Sequence[Started]) -> None:
    """Queued responses run."""
    _many(
        "UPDATE streaming_response SET state = 'running', engine_id = %s, queue_ms = %s, attempts = %s"
        " WHERE id = %s AND epoch = %s AND end_state IS NULL",
        sorted(notes, key=attrgetter("response_id")),
    )


def raise_delivered(notes: Sequence[Delivered]) -> None:
    """Delivered counts of ended responses rise to these, never above what was sent; a TTFT fills a gap.

    In the order of ids: of several who do this at once each finds the next row free, or held by who needs none of its.
    """
    _many(
        "UPDATE streaming_response SET ttft_ms = COALESCE(ttft_ms, %s), delivered_tokens ="
        " CASE WHEN %s BETWEEN delivered_tokens AND sent_tokens THEN %s ELSE delivered_tokens END"
        " WHERE id = %s AND end_state IS NOT NULL",
        sorted(
            ((note.ttft_ms, note.delivered_tokens, note.delivered_tokens, note.response_id) for note in notes),
            key=itemgetter(-1),
        ),
    )


def _many(sql: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(sql, rows)


def request_stop(response_id: str, reason: str) -> None:
    """Remember that a person asked to stop: the owner looks for it, and nobody carries the response on."""
    Response.objects.filter(id=response_id, stop_requested_at__isnull=True).update(
        stop_requested_at=timezone.now(), stop_reason=reason
    )


def has_ended(response_id: str) -> bool:
    """Whether the end is stored, or the response gone."""
    return not Response.objects.filter(id=response_id, end_state__isnull=True).exists()


def get(response_id: str, user_id: int) -> Response | None:
    """The user's response, or None for an unknown one, an erased one and somebody else's alike."""
    if not ID_FORMAT.fullmatch(response_id):
        return None
    rows = Response.objects.select_related("message").filter(erased_at__isnull=True)
    return rows.filter(id=response_id, user_id=user_id).first()


def mark(response_id: str, user_id: int, value: str | None) -> bool:
    """Store what its user thinks of an answer of a conversation; False where the user has no such answer."""
    if not ID_FORMAT.fullmatch(response_id):
        return False
    rows = Response.objects.filter(id=response_id, user_id=user_id, conversation__isnull=False, erased_at__isnull=True)
    return bool(rows.update(mark=value))


def is_of_epoch(response_id: str, epoch: int) -> bool:
    """Whether nobody has taken the response over since; inside a transaction nobody can until it ends."""
    rows = Response.objects.select_for_update(no_key=True).filter(id=response_id)
    return rows.values_list("epoch", flat=True).first() == epoch


def by_key(user_id: int | None, idempotency_key: str | None) -> Response | None:
    """The user's response of an idempotency key."""
    if not idempotency_key or user_id is None:
        return None
    rows = Response.objects.select_related("message")
    return rows.filter(user_id=user_id, idempotency_key=idempotency_key).first()


def running_of_conversation(conversation_id: str, user_id: int) -> Response | None:
    """The user's response of the conversation that has not ended."""
    return Response.objects.filter(conversation_id=conversation_id, user_id=user_id, end_state__isnull=True).first()
