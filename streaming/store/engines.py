"""Owns reading the rows of engines. Knows no connection to any."""

from streaming.models import Engine


def enabled() -> list[Engine]:
    """All engines that may be used, oldest first."""
    return list(Engine.objects.filter(enabled=True).order_by("id"))
