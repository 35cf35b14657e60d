"""Owns conversations and their messages in the database. Every read of one goes through its owner check."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import OuterRef, Q, QuerySet, Subquery

from streaming.models import Conversation, Message, Response, ResponseEvent
from streaming.protocol.events import ENDED, TEXT, Event

from . import erasure, json_answers, log, steps

ID_FORMAT = re.compile(r"conv_[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)
CURSOR_FORMAT = re.compile(rf"([0-9]{{1,16}})\.({ID_FORMAT.pattern})", re.ASCII)
EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
PAGE_SIZE = 50
PINNED_MAX = 200


class BadCursor(ValueError):
    """A page cursor that we did not make."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A message with what is stored of its answer so far.

    ``position`` is the log's last (epoch, seq). ``output`` are the answer's items if it is more than text.
    ``json`` is there for an answer that was held to JSON.
    """

    message: Message
    response: Response | None
    text: str
    position: tuple[int, int] | None
    output: list[dict[str, Any]] = field(default_factory=list)
    json: json_answers.Verdict | None = None


def get(user: User, conversation_id: str) -> Conversation:
    """The user's conversation. Raises Conversation.DoesNotExist alike for another's and for an unknown one."""
    if not ID_FORMAT.fullmatch(conversation_id):
        raise Conversation.DoesNotExist
    return _listed(user).get(id=conversation_id)


def page(user: User, before: str | None) -> tuple[list[Conversation], str | None]:
    """The user's conversations, latest first, after a cursor; and the cursor of the next page if there is one.

    Pinned ones come before the first page, and on no other. Each has ``running``: the id of its answer that has not
    ended, or None.
    """
    latest_first = _listed(user).order_by("-updated_at", "-id")
    rows = latest_first.filter(pinned=False)
    if before is not None:
        updated_at, last_id = _parse_cursor(before)
        rows = rows.filter(Q(updated_at__lt=updated_at) | Q(updated_at=updated_at, id__lt=last_id))
    found = list(rows[: PAGE_SIZE + 1])
    shown = found[:PAGE_SIZE]
    pinned = list(latest_first.filter(pinned=True)[:PINNED_MAX]) if before is None else []
    return pinned + shown, _cursor(shown[-1]) if len(found) > PAGE_SIZE else None


def create(user: User, title: str = "", system_prompt: str = "") -> Conversation:
    """A new, empty conversation."""
    title_by = Conversation.TitleBy.USER if title else ""
    return Conversation.objects.create(user=user, title=title, title_by=title_by, system_prompt=system_prompt)


def change(user: User, conversation_id: str, changes: dict[str, Any]) -> Conversation:
    """Set title, pinned or system_prompt; the place in the list stays."""
    if "title" in changes:
        changes = {**changes, "title_by": Conversation.TitleBy.USER, "title_due_at": None}
    Conversation.objects.filter(id=get(user, conversation_id).id).update(**changes)
    return get(user, conversation_id)


def delete(user: User, conversation_id: str) -> None:
    """Remove the conversation and its messages, and erase its responses."""
    get(user, conversation_id)
    erasure.delete_conversations(Conversation.objects.filter(user=user, id=conversation_id))


def turns(conversation: Conversation) -> list[Turn]:
    """All messages, oldest first, in at most five queries however many there are."""
    messages = list(conversation.messages.select_related("response").order_by("id"))
    responses = [response for message in messages if (response := getattr(message, "response", None))]
    live = _live_logs(response for response in responses if response.end_state is None)
    ended = steps.of_ended(response for response in responses if response.end_state is not None)
    verdicts = json_answers.verdicts(responses)
    found = [_turn(message, live, ended) for message in messages]
    return [replace(turn, json=verdicts.get(turn.response.id)) if turn.response else turn for turn in found]


def _listed(user: User) -> QuerySet[Conversation]:
    unended = Response.objects.filter(
        conversation=OuterRef("pk"), end_state__isnull=True, purpose=Response.Purpose.CHAT
    )
    return Conversation.objects.filter(user=user).annotate(running=Subquery(unended.values("id")[:1]))


@dataclass(frozen=True, slots=True)
class _LiveLog:
    """What is stored of an answer that has not ended."""

    text: str
    position: tuple[int, int]
    output: list[dict[str, Any]]


def _turn(message: Message, live: dict[str, _LiveLog], ended: dict[str, list[dict[str, Any]]]) -> Turn:
    response: Response | None = getattr(message, "response", None)
    if response is None:
        return Turn(message, None, message.text, None)
    if response.end_state is None:
        now = live.get(response.id)
        return Turn(message, response, now.text, now.position, now.output) if now else Turn(message, response, "", None)
    position = (response.epoch, response.last_seq) if response.last_seq else None
    return Turn(message, response, response.output_text, position, ended.get(response.id, []))


def _live_logs(responses: Iterable[Response]) -> dict[str, _LiveLog]:
    """Of answers that have not ended: what is in the log, and its last position.

    One that ended since its row was read is shown as it was before: who follows it from there is told of its end.
    """
    by_id = {response.id: response for response in responses}
    if not by_id:
        return {}
    logs = log.by_response(ResponseEvent.objects.filter(response_id__in=by_id).exclude(kind=ENDED))
    return {id_: _live_log(by_id[id_], events) for id_, events in logs.items()}


def _live_log(response: Response, events: Sequence[Event]) -> _LiveLog:
    text = "".join(event.payload["text"] for event in events if event.kind == TEXT)
    return _LiveLog(text, (events[-1].epoch, events[-1].seq), steps.items(response, events))


def _cursor(conversation: Conversation) -> str:
    return f"{(conversation.updated_at - EPOCH_START) // timedelta(microseconds=1)}.{conversation.id}"


def _parse_cursor(text: str) -> tuple[datetime, str]:
    match = CURSOR_FORMAT.fullmatch(text)
    if match is None:
        raise BadCursor("not a cursor of this list")
    return EPOCH_START + timedelta(microseconds=int(match[1])), match[2]
