"""Owns the tasks that take away what need not be kept any longer. What is taken away, and how, is the store's."""

import time
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from streaming.models import Conversation
from streaming.store import batches, erasure, files
from streaming.store.expiry import expire_logs

from .ticks import tick

#: Below every limit of a task's time.
RUN_S = 120.0
FILES_AT_ONCE = 4


@tick("streaming.erase_unstored", every_s=15)
def erase_unstored() -> int:
    """What was not to be stored goes NO_STORE_KEEP_S after its end; of the page also conversations without answers."""
    ended_before = timezone.now() - timedelta(seconds=settings.NO_STORE_KEEP_S)
    gone = erasure.erase_unstored(ended_before)
    if not settings.PAGE_STORE:
        unused = Conversation.objects.filter(responses=None, updated_at__lt=ended_before)
        gone += erasure.delete_conversations(unused)
    if gone:
        erasure.forget_on_disk()
    return gone


@tick("streaming.expire", every_s=3600)
def expire() -> int:
    """Logs go after LOG_TTL_DAYS, conversations after CONVERSATION_TTL_DAYS without a change; 0 keeps them for ever.

    What is left when the time of one run is over has its turn at the next.
    """
    until, now, gone = time.monotonic() + RUN_S, timezone.now(), 0
    for days, expire_some in ((settings.LOG_TTL_DAYS, expire_logs), (settings.CONVERSATION_TTL_DAYS, _delete_idle)):
        older_than = now - timedelta(days=days)
        while days > 0 and time.monotonic() < until and (count := expire_some(older_than)):
            gone += count
    erasure.forget_on_disk()
    return gone


@tick("streaming.remove_files", every_s=60)
def remove_files() -> int:
    """Files go at the time that stands in their rows, and then the batches that wrote them. Returns how many."""
    until, now, gone = time.monotonic() + RUN_S, timezone.now(), 0
    while time.monotonic() < until and (count := files.remove(files.due(now, FILES_AT_ONCE))):
        gone += count
    if settings.FILE_TTL_DAYS:
        gone += batches.remove_old(now - timedelta(days=settings.FILE_TTL_DAYS))
    if gone:
        erasure.forget_on_disk()
    return gone


def _delete_idle(since: datetime) -> int:
    return erasure.delete_conversations(erasure.idle_conversations(since))
