"""Owns storing new responses, with all that is stored beside them. Does not decide whether one is made."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from streaming.metrics.finished import Finished
from streaming.models import Conversation, Message, Response, ResponseInput
from streaming.models.ids import response_id, rising_now
from streaming.protocol.end_state import REJECTED, End
from streaming.protocol.events import ENDED, Event

from . import log, outbox, quotas, settling
from .packing import pack_prompt
from .responses import by_key, end_fields

TITLE_CHARS = 80
_COLUMNS = [field.attname for field in Response._meta.concrete_fields]
_INSERT = f"INSERT INTO streaming_response ({', '.join(_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_COLUMNS))})"  # noqa: S608


class KeyTaken(Exception):
    """The idempotency key already names a response of this user."""


class ConversationBusy(Exception):
    """Another response of the conversation has not ended."""


@dataclass(frozen=True, slots=True)
class NewResponse:
    """What a response is created with. ``request`` holds clamped parameters, never the prompt's text.

    ``kept`` are the fields of its ResponseInput, where there is one; ``claim`` what quotas are asked for. ``age_s`` is
    how long ago its request arrived when this was made: its times count from there, not from its row.
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
    no_store: bool = False
    claim: quotas.Claim | None = None
    age_s: float = 0.0

    @property
    def is_one_row(self) -> bool:
        """Whether nothing but the response's own row is stored."""
        return self.conversation_id is None and self.kept is None and self.claim is None

    @property
    def waits_for_nobody(self) -> bool:
        """Whether it is one row that no other transaction can hold up: two with one key wait for each other."""
        return self.is_one_row and self.idempotency_key is None


def create(new: NewResponse) -> Response:
    """Store a queued response, and for the chat its messages, in one transaction.

    ``question`` is new user text below ``parent_id``; without it ``parent_id`` is the user message to
    answer (again). Raises OverQuota, KeyTaken, ConversationBusy or, when it was deleted meanwhile,
    Conversation.DoesNotExist. A quota may leave the answer fewer tokens than ``request`` says.
    """
    try:
        if new.is_one_row:
            return insert(new)
        with transaction.atomic():
            reserved = _reserve(new)
            message = _answer_message(new, new.conversation_id) if new.conversation_id else None
            response = insert(new, message, reserved)
            if new.kept is not None:
                ResponseInput.objects.create(response_id=response.id, **new.kept)
            return response
    except IntegrityError as error:
        if by_key(new.user_id, new.idempotency_key):
            raise KeyTaken from error
        if not Conversation.objects.filter(id=new.conversation_id).exists():
            raise Conversation.DoesNotExist from error
        raise ConversationBusy from error


def _reserve(new: NewResponse) -> dict[str, Any] | None:
    if new.claim is None:
        return None
    return quotas.reserve(new.claim, len(new.prompt_ids), new.request["max_tokens"])


def insert(new: NewResponse, message: Message | None = None, reserved: Mapping[str, Any] | None = None) -> Response:
    """One statement, written out: the ORM takes a millisecond to find out what to do with each of the columns."""
    now = timezone.now()
    arrived_at = now - timedelta(seconds=new.age_s)
    response = Response(
        **{**_asked_fields(new), "request": quotas.with_answer(new.request, reserved)},
        reserved=reserved,
        conversation_id=new.conversation_id,
        message=message,
        prompt_tokens=len(new.prompt_ids),
        idempotency_key=new.idempotency_key,
        request_sha256=new.request_sha256,
        owner=new.owner,
        created_at=arrived_at,
        admitted_at=now,
    )
    stored = {
        "request": json.dumps(response.request),
        "attempts": json.dumps(response.attempts),
        "reserved": json.dumps(reserved) if reserved else None,
        "prompt_ids": pack_prompt(new.prompt_ids),
        "created_at": connection.ops.adapt_datetimefield_value(arrived_at),
        "admitted_at": connection.ops.adapt_datetimefield_value(now),
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
        conversation.filter(title="").update(
            title=" ".join(new.question.split())[:TITLE_CHARS],
            title_by=Conversation.TitleBy.QUESTION,
            title_due_at=timezone.now(),
        )
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
            **end_fields(end),
        )
        log.insert([(response.id, Event(1, response.epoch, ENDED, end.to_payload({})))])
        outbox.note_ended(response.id)
        settling.tell(lambda: _finished(response))
    return response


def _finished(response: Response) -> Finished:
    """One that ended as it began has no figures."""
    names = ("end_state", "end_reason", "model", "purpose", "dialect", "stream", "user_id", "error_code")
    return Finished(response.id, **{name: getattr(response, name) for name in names})


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
        "no_store": new.no_store,
    }
