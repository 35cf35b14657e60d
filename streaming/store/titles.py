"""Owns which conversations still want a title from a model, and setting it. Makes none up, asks no model."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef

from streaming.models import Conversation, Message, Response

ATTEMPTS_MAX = 3
#: The pause before the second attempt; each further one waits twice as long.
RETRY = timedelta(minutes=1)
#: A conversation that had no answer for so long keeps its question's words.
WANTED_FOR = timedelta(days=1)
BY_QUESTION = Conversation.TitleBy.QUESTION


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a conversation began with."""

    user_id: int
    model: str
    question: str
    answer: str


def claim(now: datetime, limit: int) -> list[str]:
    """Conversations whose first answer has ended and that may be asked for now, each given to one caller.

    Who does not come back with a title in RETRY loses it to the next attempt; after ATTEMPTS_MAX there is none.
    """
    answered = Response.objects.filter(conversation=OuterRef("pk"), ended_at__isnull=False).exclude(output_text="")
    secret = Response.objects.filter(conversation=OuterRef("pk"), no_store=True)
    wanting = Conversation.objects.filter(title_due_at__lte=now, title_due_at__gt=now - WANTED_FOR)
    due = wanting.filter(Exists(answered), ~Exists(secret), title_by=BY_QUESTION).order_by("title_due_at")
    return [id_ for id_, attempts in due.values_list("id", "title_attempts")[:limit] if _take(id_, attempts, now)]


def _take(conversation_id: str, attempts: int, now: datetime) -> bool:
    due_at = now + RETRY * (1 << attempts) if attempts + 1 < ATTEMPTS_MAX else None
    untaken = Conversation.objects.filter(id=conversation_id, title_attempts=attempts, title_due_at__lte=now)
    return bool(untaken.update(title_attempts=attempts + 1, title_due_at=due_at))


def exchange(conversation_id: str) -> Exchange | None:
    """The first question and its first answer with text; None where no model is to be asked any more."""
    conversation = Conversation.objects.filter(id=conversation_id, title_by=BY_QUESTION).first()
    question = Message.objects.filter(conversation_id=conversation_id, role=Message.Role.USER).order_by("id").first()
    answers = Response.objects.filter(conversation_id=conversation_id, ended_at__isnull=False, no_store=False)
    answer = answers.exclude(output_text="").order_by("id").first()
    if conversation is None or question is None or answer is None:
        return None
    return Exchange(conversation.user_id, answer.model, question.text, answer.output_text)


def set_title(conversation_id: str, title: str) -> bool:
    """Put a model's title in the place of the question's words; False when the user has written one, or it is gone."""
    rows = Conversation.objects.filter(id=conversation_id, title_by=BY_QUESTION)
    return bool(rows.update(title=title, title_by=Conversation.TitleBy.MODEL, title_due_at=None))


def give_up(conversation_id: str) -> None:
    """Nobody is asked again: the question's words stay."""
    Conversation.objects.filter(id=conversation_id).update(title_due_at=None)
