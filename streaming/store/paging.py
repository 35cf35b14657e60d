"""Owns how lists of rows whose ids rise with time are read page by page. Knows no table."""

from typing import Any

from django.db.models import QuerySet


def page(rows: QuerySet[Any], after: str | None, limit: int, *, latest_first: bool) -> tuple[list[Any], bool]:
    """The rows behind an id, at most ``limit``, and whether there are more."""
    if after is not None:
        rows = rows.filter(id__lt=after) if latest_first else rows.filter(id__gt=after)
    found = list(rows.order_by("-id" if latest_first else "id")[: limit + 1])
    return found[:limit], len(found) > limit
