"""Owns the rows of engines: which are served, which are being drained. Knows no connection to any."""

from typing import Any

from django.db import transaction
from django.db.models.signals import pre_delete
from django.dispatch import receiver
from django.utils import timezone

from streaming.models import DailyUsage, Engine, Response

from . import locking, usage

BATCH = 1000


def enabled() -> list[Engine]:
    """All engines that may be used, oldest first."""
    return list(Engine.objects.filter(enabled=True).order_by("id"))


def drain(pk: int) -> bool:
    """Let an engine take nothing new from now on. False where that is so already."""
    return bool(Engine.objects.filter(pk=pk, drain_started_at=None).update(drain_started_at=timezone.now()))


def give_back(pk: int) -> bool:
    """Let a drained engine take requests again. False where it is not drained."""
    return bool(Engine.objects.filter(pk=pk, drain_started_at__isnull=False).update(drain_started_at=None))


def take_off(engine: Engine) -> None:
    """What takes long of deleting an engine, before the transaction that deletes it; it is disabled from here on.

    Responses name it no more: of those that have ended BATCH at a time, one by one of those that some journal may hold.
    """
    Engine.objects.filter(pk=engine.pk).update(enabled=False)
    named = Response.objects.filter(engine=engine).order_by("-created_at").values_list("pk", flat=True)
    while ids := list(named.filter(end_state__isnull=False)[:BATCH]):
        with transaction.atomic():
            locking.hold(Response.objects.filter(pk__in=ids))
            Response.objects.filter(pk__in=ids).update(engine=None)
    for response_id in list(named):
        Response.objects.filter(pk=response_id).update(engine=None)


@receiver(pre_delete, sender=Engine)
def _hold(instance: Engine, **_: Any) -> None:
    """A response that it took in the last moment would forbid the deletion: that note is lost instead."""
    usage.lock_days_of(DailyUsage.objects.filter(engine=instance))
    locking.hold(Engine.objects.filter(pk=instance.pk))
