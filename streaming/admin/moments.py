"""Owns how a page of one row spells moments that are milliseconds apart. Lists say them to the second."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin


def to_the_millisecond(name: str) -> Callable[[Any], str]:
    """A column of a page for a field that holds a moment; a dash where it has none."""

    @admin.display(description=f"{name.replace('_', ' ').capitalize()} (UTC)")
    def moment(row: Any) -> str:
        at: datetime | None = getattr(row, name)
        return "–" if at is None else at.astimezone(UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")

    moment.__name__ = name
    return moment
