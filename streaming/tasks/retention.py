"""Owns the tasks that take away what need not be kept any longer. What is taken away, and how, is the store's."""

from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from streaming.models import Conversation
from streaming.store import erasure
from streaming.store.expiry import expire_logs


@shared_task(name="streaming.erase_unstored")
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


@shared_task(name="streaming.expire")
def expire() -> int:
    """Logs go after LOG_TTL_DAYS, conversations after CONVERSATION_TTL_DAYS without a change; 0 keeps them for ever."""
    now, gone = timezone.now(), 0
    if settings.LOG_TTL_DAYS > 0:
        while count := expire_logs(now - timedelta(days=settings.LOG_TTL_DAYS)):
            gone += count
    if settings.CONVERSATION_TTL_DAYS > 0:
        idle = erasure.idle_conversations(now - timedelta(days=settings.CONVERSATION_TTL_DAYS))
        while count := erasure.delete_conversations(idle):
            gone += count
    erasure.forget_on_disk()
    return gone
