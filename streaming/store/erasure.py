"""Owns taking people's words away while what was used stays counted. Does not decide whose words, nor when.

Whatever deletes a user or a conversation, be it a shell, erases with it: see the receivers at the end.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.signals import pre_delete
from django.dispatch import receiver
from django.utils import timezone

from streaming.models import (
    ApiKey,
    Batch,
    Conversation,
    DailyUsage,
    QuotaUse,
    Response,
    ResponseEvent,
    ResponseInput,
    StoredFile,
)
from streaming.protocol.end_state import STOPPED, decide
from streaming.protocol.events import ENDED

from . import files, locking, orphans, usage
from .threads import impatient

#: The columns of a response that can hold somebody's words, or what words can be had from; as they are without any.
WORDS: dict[str, Any] = {
    "request": {},
    "prompt_ids": None,
    "idempotency_key": None,
    "request_sha256": "",
    "error_message": "",
    "output_text": "",
    "reasoning_text": "",
    "remains": None,
}
#: What stays in the payload of an end: no words, and all that is needed to tell it to whoever is reading.
HOW = ("end_state", "end_reason", "finish_reason")
DELETED = decide(None, STOPPED, "deleted")
BATCH = 200
#: More than clocks of living processes differ.
FAR_AHEAD = timedelta(hours=1)
FILES_AT_ONCE = 4
TRUNCATE_TRIES = 40
TRUNCATE_PAUSE_S = 0.05


def erase(responses: QuerySet[Response]) -> int:
    """Leave of these only numbers: nobody finds them by id or key any more. Returns how many there were.

    One that has not ended is ended; whoever runs it meets that end at its next commit, and stops. Each end and each
    BATCH is a transaction of its own, unless the caller is in one: a journal waits for every row that is held.
    """
    # Again where one was taken over in between: who carries it on would write its words behind the erasure.
    while unended := list(responses.filter(end_state__isnull=True).order_by("id")):
        for response in unended:
            orphans.end_orphan(response, DELETED)
    ids = list(responses.filter(erased_at__isnull=True).order_by("id").values_list("id", flat=True))
    for some in _batches(ids):
        _erase(some)
    return len(ids)


@transaction.atomic
def _erase(ids: Sequence[str]) -> None:
    # The rows first: who folds their logs at the same time holds them.
    locking.hold(Response.objects.filter(id__in=ids))
    Response.objects.filter(id__in=ids).update(erased_at=timezone.now(), **WORDS)
    ResponseInput.objects.filter(response_id__in=ids).delete()
    events = ResponseEvent.objects.filter(response_id__in=ids)
    events.exclude(kind=ENDED).delete()
    # The end stays in its place: it is what refuses a late writer.
    by_end: dict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for response_id, *how in Response.objects.filter(id__in=ids).values_list("id", *HOW):
        by_end[tuple(how)].append(response_id)
    for how, ended in by_end.items():
        payload: dict[str, Any] = {**dict(zip(HOW, how, strict=True)), "error": None, "usage": {}}
        events.filter(response_id__in=ended).update(payload=payload, token_ids=None)


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


def erase_unstored(ended_before: datetime) -> int:
    """Erase what was not to be stored and has ended: answers of the API; of the page, whole conversations.

    A conversation waits for the end of its newest answer. Returns how many responses and conversations went.
    """
    # No clock is as far ahead: it has been set back since, and what is not to be stored does not wait for that time.
    has_ended = Q(ended_at__lt=ended_before) | Q(ended_at__gt=timezone.now() + FAR_AHEAD)
    due = Response.objects.filter(has_ended, no_store=True, erased_at__isnull=True)
    later = Response.objects.filter(conversation=OuterRef("pk")).exclude(has_ended)
    threads = due.filter(conversation__isnull=False).values("conversation")
    gone = delete_conversations(Conversation.objects.filter(~Exists(later), id__in=threads))
    return gone + erase(due.filter(conversation__isnull=True))


def delete_conversations(conversations: QuerySet[Conversation]) -> int:
    """Remove conversations with all that was said in them, each in a transaction of its own. Returns how many.

    One that is no longer among these when its turn comes, for somebody went on with it or pinned it, stays.
    """
    ids = list(conversations.order_by("id").values_list("id", flat=True)[:BATCH])
    return sum(_delete(conversations, conversation_id) for conversation_id in ids)


def _delete(conversations: QuerySet[Conversation], conversation_id: str) -> bool:
    with transaction.atomic():
        # Before Django looks what is in it: a question that came after that would forbid the deletion.
        locking.hold(Conversation.objects.filter(id=conversation_id))
        removed, _ = conversations.filter(id=conversation_id).delete()
    return removed > 0


def idle_conversations(since: datetime) -> QuerySet[Conversation]:
    """Those that nobody has pinned or added to since, and where nothing runs.

    Of ``updated_at`` the order counts: a process that started with a wrong clock writes it so until its end.
    """
    newer = Q(end_state__isnull=True) | Q(created_at__gte=since)
    answers = Response.objects.filter(newer, conversation=OuterRef("pk"))
    return Conversation.objects.filter(~Exists(answers), pinned=False, updated_at__lt=since)


def forget_on_disk() -> None:
    """SQLite: what was erased leaves the file of changes (WAL) too, unless somebody reads an old state just now."""
    if connection.vendor != "sqlite":
        return
    for _ in range(TRUNCATE_TRIES):
        # Who waits for it keeps everybody else waiting: rather come back.
        with impatient(), connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if not cursor.fetchone()[0]:
                return
        time.sleep(TRUNCATE_PAUSE_S)


def empty(user: User) -> None:
    """What takes long of deleting a user, before the transaction that deletes them; they are locked out from here on.

    That transaction holds the user's row, and whoever stores a response of theirs waits for it.
    """
    User.objects.filter(pk=user.pk).update(is_active=False)
    erase(Response.objects.filter(user=user))
    while delete_conversations(Conversation.objects.filter(user=user)):
        pass
    Batch.objects.filter(user=user).delete()  # whoever works at one finds it gone
    stored = StoredFile.objects.filter(user=user).order_by("pk").values_list("pk", flat=True)
    while files.remove(StoredFile.objects.filter(pk__in=list(stored[:FILES_AT_ONCE]))):
        pass


def hold(user: User) -> None:
    """In the transaction that deletes a user, before Django looks what is theirs: later nothing more can come.

    Else a question that comes in between forbids the deletion, when all of it is done.
    """
    usage.lock_days_of(DailyUsage.objects.filter(user=user))
    for rows in _locked_before(user):
        locking.hold(rows)


@receiver(pre_delete, sender=User)
def _erase_with_its_user(instance: User, **_: Any) -> None:
    hold(instance)
    _erase_held(Response.objects.filter(user=instance))


@receiver(pre_delete, sender=Conversation)
def _erase_with_its_conversation(instance: Conversation, **_: Any) -> None:
    locking.hold(Conversation.objects.filter(pk=instance.pk))
    _erase_held(Response.objects.filter(conversation=instance))


def _locked_before(user: User) -> Iterator[QuerySet[Any]]:
    """What others lock before the user's row, in their order; then that row.

    A response that is stored a moment later must find nothing to belong to, one stored a moment ago be seen.
    """
    yield QuotaUse.objects.filter(Q(quota__user=user) | Q(quota__api_key__user=user))
    yield Conversation.objects.filter(user=user)
    yield Batch.objects.filter(user=user)
    yield ApiKey.objects.filter(user=user)
    yield User.objects.filter(pk=user.pk)


def _erase_held(responses: QuerySet[Response]) -> None:
    """What refers to a deleted row is changed with it, erased before or not."""
    erase(responses)
    locking.hold(responses)
