"""Owns the rows of engines: which are served, which are being drained. Knows no connection to any."""

from django.utils import timezone

from streaming.models import Engine


def enabled() -> list[Engine]:
    """All engines that may be used, oldest first."""
    return list(Engine.objects.filter(enabled=True).order_by("id"))


def drain(pk: int) -> bool:
    """Let an engine take nothing new from now on. False where that is so already."""
    return bool(Engine.objects.filter(pk=pk, drain_started_at=None).update(drain_started_at=timezone.now()))


def give_back(pk: int) -> bool:
    """Let a drained engine take requests again. False where it is not drained."""
    return bool(Engine.objects.filter(pk=pk, drain_started_at__isnull=False).update(drain_started_at=None))
