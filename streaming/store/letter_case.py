"""Owns that the case of letters is no matter, alike on both databases. SQLite by itself knows only ASCII's letters."""

from typing import Any

from django.db.backends.signals import connection_created
from django.db.models import F
from django.db.models.functions import Lower
from django.db.models.lookups import Contains
from django.dispatch import receiver


def holds(column: str, text: str) -> Contains:
    """A condition: the column has the text somewhere, in whatever case."""
    return Contains(Lower(F(column)), text.lower())


@receiver(connection_created)
def _teach_sqlite(connection: Any, **_: Any) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_function("LOWER", 1, _lower, deterministic=True)


def _lower(text: str | None) -> str | None:
    return None if text is None else str(text).lower()
