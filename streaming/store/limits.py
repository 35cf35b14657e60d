"""Owns that PostgreSQL holds our connections to their limits: looking whether it does, having the role keep them.

A connection of our own brings them along. Through a pooler it cannot, and nobody would notice until somebody waits for
ever.
"""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core import checks
from django.db import connection

CURE = (
    "Set DATABASE_POOLER=1 everywhere, run `manage.py migrate`, which has the role keep them, and say RECONNECT"
    " in the pooler's console"
)
NONE = ("0", "off")


def missing() -> dict[str, str]:
    """The limits that do not hold, and what they should be; another value than ours is somebody's decision."""
    if connection.vendor != "postgresql":
        return {}
    names = list(settings.DATABASE_LIMITS)
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [names])
        return {name: settings.DATABASE_LIMITS[name] for name, value in cursor.fetchall() if value in NONE}


def complaint(names: dict[str, str]) -> str:
    """What an operator is told of limits that do not hold."""
    wanted = ", ".join(f"{name} ({value})" for name, value in names.items())
    return f"the connections to PostgreSQL have no {wanted}: is there a pooler that drops `options`? {CURE}."


def keep_with_role(**_: Any) -> None:
    """After ``migrate`` through a pooler: connections of this role to this database begin with the limits."""
    if connection.vendor != "postgresql" or not settings.DATABASE_POOLER:
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_database())")
        (database,) = cursor.fetchone()
        for name, value in settings.DATABASE_LIMITS.items():
            cursor.execute(f"ALTER ROLE CURRENT_USER IN DATABASE {database} SET {name} = '{value}'")


@checks.register(checks.Tags.database)
def check(app_configs: Any, databases: Sequence[str] | None, **_: Any) -> Sequence[checks.CheckMessage]:
    """For ``manage.py check --database default``, and ``migrate``. A warning, for ``migrate`` is the cure."""
    names = missing() if databases else {}
    return [checks.Warning(complaint(names), id="streaming.W001")] if names else []
