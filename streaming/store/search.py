"""Owns looking for a text in a user's conversations: titles, questions and answers. Ranks nothing; newest first."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q

from streaming.models import Conversation, Message

from .letter_case import holds

HITS_MAX = 30
AROUND_CHARS = 60


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a text was found: in a message, or in a title (``message_id`` is None)."""

    conversation_id: str
    title: str
    message_id: str | None
    before: str
    match: str
    after: str


def search(user: User, text: str) -> list[Hit]:
    """The newest places of the user's that hold the text, titles first. An answer counts with what is stored of it."""
    titled = Conversation.objects.filter(holds("title", text), user=user).order_by("-updated_at", "-id")[:HITS_MAX]
    hits = [Hit(row.id, row.title, None, *_around(row.title, text)) for row in titled]
    either = Q(holds("text", text)) | Q(holds("response__output_text", text))
    said = Message.objects.filter(either, conversation__user=user).select_related("conversation", "response")
    hits += _in_messages(said.order_by("-id")[:HITS_MAX].iterator(), text)
    return hits[:HITS_MAX]


def _in_messages(messages: Iterator[Message], text: str) -> Iterator[Hit]:
    for message in messages:
        response = getattr(message, "response", None)
        held = response.output_text if response else message.text
        yield Hit(message.conversation_id, message.conversation.title, message.id, *_around(held, text))


def _around(held: str, text: str) -> tuple[str, str, str]:
    """What stands before the first match, the match as it is written, what follows; on one line each."""
    at = held.lower().find(text.lower())
    if at < 0:  # the database compares letters otherwise than we do
        return _line(held[: 2 * AROUND_CHARS]), "", ""
    end = at + len(text)
    before = ("…" if at > AROUND_CHARS else "") + held[max(0, at - AROUND_CHARS) : at]
    after = held[end : end + AROUND_CHARS] + ("…" if len(held) > end + AROUND_CHARS else "")
    return _line(before), held[at:end], _line(after)


def _line(text: str) -> str:
    return text.replace("\n", " ")
