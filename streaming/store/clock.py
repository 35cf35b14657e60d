"""Owns the clock by which processes agree on who may do what until when: the database's. Times of rows are not its."""

import time
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.db.models import Q


def now_s() -> float:
    """Seconds since 1970. SQLite has one clock anyway: it is served by one machine."""
    if connection.vendor == "sqlite":
        return time.time()
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXTRACT(EPOCH FROM clock_timestamp())")
        return float(cursor.fetchone()[0])


def now() -> datetime:
    """The same as a moment."""
    return datetime.fromtimestamp(now_s(), UTC)


def counts_until(column: str, longest: timedelta) -> Q:
    """Whether the moment in a column is to come, by no more than anybody puts one: else this clock was set back."""
    moment = now()
    return Q(**{f"{column}__gt": moment, f"{column}__lte": moment + longest})
