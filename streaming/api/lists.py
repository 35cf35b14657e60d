"""Owns the one shape of OpenAI's lists that are read page by page. Fetches nothing."""

from collections.abc import Callable, Sequence
from typing import Any

from .errors import ApiError

AFTER_CHARS = 60


def listed(rows: Sequence[Any], has_more: bool, shown: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """A page: SDKs go on behind the id of its last row."""
    return {
        "object": "list",
        "data": [shown(row) for row in rows],
        "first_id": rows[0].id if rows else None,
        "last_id": rows[-1].id if rows else None,
        "has_more": has_more,
    }


def checked_after(after: str | None, prefix: str) -> str | None:
    """The cursor of a list whose ids begin so. Raises ApiError for what is no such id."""
    if after is None or (after.startswith(prefix) and len(after) <= AFTER_CHARS and after.isascii()):
        return after
    message = f"after: an id that begins with {prefix} (got {after[:40]!r})"
    raise ApiError(400, message, code="invalid_request", param="after")
