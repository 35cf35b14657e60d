"""Owns the rows of responses from creation to their one end. Does not decide how a response ends."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from streaming.models import Conversation, Message, Response, ResponseInput
from streaming.models.ids import response_id, rising_now
from streaming.protocol.end_state import REJECTED, End
from streaming.protocol.events import ENDED, Event

from . import log
from .packing import pack_prompt

TITLE_CHARS = 80
_COLUMNS = [field.attname for field in Response._meta.concrete_fields]
_INSERT = f"INSERT INTO streaming_response ({', '.join(_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_COLUMNS))})"  # noqa: S608
ID_FORMAT = re.compile(r"resp_[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)


class KeyTaken(Exception):
    """The idempotency key already names a response of this user."""


class ConversationBusy(Exception):
    """Another response of the conversation has not ended."""


@dataclass(frozen=True, slots=True)
class NewResponse:
    """What a response is created with. ``request`` holds clamped parameters, never the prompt's text.

    ``kept`` are the fields of its ResponseInput, where there is one.
    """

    user_id: int | None
    purpose: str
    dialect: str
    model: str
    policy: str
    stream: bool
    request: Mapping[str, Any]
    prompt_ids: Sequence[int]
    owner: str
    id: str = field(default_factory=response_id)
    api_key_id: int | None = None
    idempotency_key: str | None = None
    request_sha256: str = ""
    conversation_id: str | None = None
    question: str | None = None
    parent_id: str | None = None
    kept: Mapping[str, Any] | None = None

    @property
    def is_one_row(self) -> bool:
        """Whether nothing but the response's own row is stored."""
        return self.conversation_id is None and self.kept is None

    @property
    def waits_for_nobody(self) -> bool:
        """Whether it is one row that no other transaction can hold up: two with one key wait for each other."""
        return self.is_one_row and self.idempotency_key is None


@dataclass(frozen=True, slots=True)
class Ending:
    """Everything that is written with the end state, in the same transaction."""

    end: End
    figures: Mapping[str, Any] = field(default_factory=dict)


def create(new: NewResponse) -> Response:
    """Store a queued response, and for the chat its messages, in one transaction.

    ``question`` is new user text below ``parent_id``; without it ``parent_id`` is the user message to
    answer (again). Raises KeyTaken, ConversationBusy or, when it was deleted meanwhile, Conversation.DoesNotExist.
    """
    try:
        if new.is_one_row:
            return insert(new)
        with transaction.atomic():
            response = insert(new, _answer_message(new, new.conversation_id) if new.conversation_id else None)
            if new.kept is not None:
                ResponseInput.objects.create(response_id=response.id, **new.kept)
            return response
    except IntegrityError as error:
        if by_key(new.user_id, new.idempotency_key):
            raise KeyTaken from error
        if not Conversation.objects.filter(id=new.conversation_id).exists():
            raise Conversation.DoesNotExist from error
        raise ConversationBusy from error


def insert(new: NewResponse, message: Message | None = None) -> Response:
    """One statement, written out: the ORM takes a millisecond to find out what to do with each of the columns."""
    now = timezone.now()
    response = Response(
        **_asked_fields(new),
        conversation_id=new.conversation_id,
        message=message,
        prompt_tokens=len(new.prompt_ids),
        idempotency_key=new.idempotency_key,
        request_sha256=new.request_sha256,
        owner=new.owner,
        created_at=now,
        admitted_at=now,
    )
    at = connection.ops.adapt_datetimefield_value(now)
    stored = {
        "request": json.dumps(response.request),
        "prompt_ids": pack_prompt(new.prompt_ids),
        "created_at": at,
        "admitted_at": at,
    }
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [stored[c] if c in stored else getattr(response, c) for c in _COLUMNS])
    return response


def _answer_message(new: NewResponse, conversation_id: str) -> Message:
    parent_id = new.parent_id
    conversation = Conversation.objects.filter(id=conversation_id)
    conversation.update(updated_at=rising_now(), model=new.model)
    if new.question is not None:
        parent_id = Message.objects.create(
            conversation_id=conversation_id, parent_id=parent_id, role=Message.Role.USER, text=new.question
        ).id
        conversation.filter(title="").update(title=" ".join(new.question.split())[:TITLE_CHARS])
    return Message.objects.create(conversation_id=conversation_id, parent_id=parent_id, role=Message.Role.ASSISTANT)


def reject(new: NewResponse, end: End) -> Response:
    """Store a refusal as a response that ended at once: no prompt text, no idempotency key."""
    if end.end_state != REJECTED:
        raise ValueError(f"a refusal ends rejected, not {end.end_state}")
    return _create_ended(new, end, idempotency_key=None)


def cancel_unknown(new: NewResponse, end: End) -> Response:
    """Store a cancel that came before its request: the late request meets it and returns it. Raises KeyTaken."""
    try:
        return _create_ended(new, end, idempotency_key=new.idempotency_key)
    except IntegrityError as error:
        raise KeyTaken from error


def _create_ended(new: NewResponse, end: End, idempotency_key: str | None) -> Response:
    now = timezone.now()
    with transaction.atomic():
        response = Response.objects.create(
            **_asked_fields(new),
            idempotency_key=idempotency_key,
            state=Response.State.ENDED,
            ended_at=now,
            last_seq=1,
            **_end_fields(end),
        )
        log.insert([(response.id, Event(1, response.epoch, ENDED, end.to_payload({})))])
    return response


def _asked_fields(new: NewResponse) -> dict[str, Any]:
    return {
        "id": new.id,
        "user_id": new.user_id,
        "api_key_id": new.api_key_id,
        "purpose": new.purpose,
        "dialect": new.dialect,
        "stream": new.stream,
        "model": new.model,
        "policy": new.policy,
        "request": dict(new.request),
    }


def end(response_id: str, epoch: int, seq: int, ending: Ending) -> bool:
    """Write the end state if nobody has: one winner by compare-and-set on state and epoch.

    Must run inside a transaction that also stores the ended event. Returns whether this call won.
    """
    fields = {
        "state": Response.State.ENDED.value,
        "ended_at": connection.ops.adapt_datetimefield_value(timezone.now()),
        "last_seq": seq,
        "prompt_ids": None,
        **_end_fields(ending.end),
        **ending.figures,
    }
    columns = ", ".join(f"{column} = %s" for column in fields)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE streaming_response SET {columns} WHERE id = %s AND epoch = %s AND end_state IS NULL",  # noqa: S608
            [*fields.values(), response_id, epoch],
        )
        return bool(cursor.rowcount)


def _end_fields(end: End) -> dict[str, Any]:
    error = end.to_payload({})["error"] or {"code": "", "message": ""}
    return {
        "end_state": end.end_state,
        "end_reason": end.end_reason,
        "finish_reason": end.finish_reason,
        "error_code": error["code"],
        "error_message": error["message"],
    }


class Started(NamedTuple):
    """An engine took a response."""

    engine_id: int
    queue_ms: float
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
        "UPDATE streaming_response SET state = 'running', engine_id = %s, queue_ms = %s"
        " WHERE id = %s AND epoch = %s AND end_state IS NULL",
        notes,
    )


def raise_delivered(notes: Sequence[Delivered]) -> None:
    """Delivered counts rise to these, never above what was sent; a TTFT is filled in where there is none."""
    _many(
        "UPDATE streaming_response SET ttft_ms = COALESCE(ttft_ms, %s), delivered_tokens ="
        " CASE WHEN %s BETWEEN delivered_tokens AND sent_tokens THEN %s ELSE delivered_tokens END WHERE id = %s",
        [(note.ttft_ms, note.delivered_tokens, note.delivered_tokens, note.response_id) for note in notes],
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


def delete(response_id: str) -> None:
    """Remove a response with its log and its input."""
    Response.objects.filter(id=response_id).delete()


def has_ended(response_id: str) -> bool:
    """Whether the end is stored, or the response gone."""
    return not Response.objects.filter(id=response_id, end_state__isnull=True).exists()


def get(response_id: str, user_id: int) -> Response | None:
    """The user's response, or None for an unknown one and for somebody else's alike."""
    if not ID_FORMAT.fullmatch(response_id):
        return None
    return Response.objects.select_related("message").filter(id=response_id, user_id=user_id).first()


def is_of_epoch(response_id: str, epoch: int) -> bool:
    """Whether nobody has taken the response over since; inside a transaction nobody can until it ends."""
    rows = Response.objects.select_for_update().filter(id=response_id)
    return rows.values_list("epoch", flat=True).first() == epoch


def exists(response_id: str) -> bool:
    """Whether there is (still) such a response."""
    return Response.objects.filter(id=response_id).exists()


def by_key(user_id: int | None, idempotency_key: str | None) -> Response | None:
    """The user's response of an idempotency key."""
    if not idempotency_key or user_id is None:
        return None
    rows = Response.objects.select_related("message")
    return rows.filter(user_id=user_id, idempotency_key=idempotency_key).first()


def running_of_conversation(conversation_id: str, user_id: int) -> Response | None:
    """The user's response of the conversation that has not ended."""
    return Response.objects.filter(conversation_id=conversation_id, user_id=user_id, end_state__isnull=True).first()
