"""Owns looking for a text in a user's conversations: titles, questions and answers. Ranks nothing; newest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from streaming.models import Conversation, Message, Response

from .letter_case import holds

HITS_MAX = 30
AROUND_CHARS = 60


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a text was found: in a message, or in a title (``message_id`` is None).

    ``at`` is when the message was written, of a title when somebody last wrote below it.
    """

    conversation_id: str
    title: str
    message_id: str | None
    before: str
    match: str
    after: str
    at: datetime

    @property
    def passage(self) -> str:
        """The match with what stands around it, in one line."""
        return self.before + _line(self.match) + self.after


def search(user_id: int, text: str, most: int = HITS_MAX, resting: bool = False) -> list[Hit]:
    """The newest places of the user's that hold the text, titles first. An answer counts with what is stored of it.

    ``resting`` leaves out conversations in which an answer is being written. What a tool found for an answer is no
    text of it, and is not looked through.
    """
    own = Conversation.objects.filter(user_id=user_id)
    said = Message.objects.filter(conversation__user_id=user_id).select_related("conversation", "response")
    if resting:
        own, said = own.exclude(_answering("pk")), said.exclude(_answering("conversation"))
    titled = own.filter(holds("title", text)).order_by("-updated_at", "-id")[:most]
    hits = [Hit(row.id, row.title, None, *_around(row.title, text), row.updated_at) for row in titled]
    either = Q(holds("text", text)) | Q(holds("response__output_text", text))
    hits += _in_messages(said.filter(either).order_by("-id")[:most].iterator(), text)
    return hits[:most]


def _answering(conversation: str) -> Exists:
    return Exists(Response.objects.filter(conversation=OuterRef(conversation), end_state__isnull=True))


def _in_messages(messages: Iterator[Message], text: str) -> Iterator[Hit]:
    for message in messages:
        response = getattr(message, "response", None)
        held = response.output_text if response else message.text
        yield Hit(
            message.conversation_id, message.conversation.title, message.id, *_around(held, text), message.created_at
        )


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
