"""Owns how one SSE frame is written. Does not know what the frames say."""

import re

#: A comment with ONE newline: an empty line after it makes openai-python see an event without data.
HEARTBEAT = b": ping\n"

_FIELD = re.compile(r"[A-Za-z0-9_.:-]+", re.ASCII)


def checked_field(value: str) -> str:
    """The value, if it may stand in an ``event:`` or ``id:`` line; ValueError otherwise."""
    if not _FIELD.fullmatch(value):
        raise ValueError(f"not allowed in an SSE field: {value!r}")
    return value


def frame(data: str, *, event: str | None = None, id: str | None = None) -> bytes:  # noqa: A002
    """One event. ``data`` is one line of ASCII, JSON as a rule; anything that could end the line is refused."""
    if not data or not data.isascii() or "\n" in data or "\r" in data:
        raise ValueError("SSE data must be one line of ASCII that is not empty")
    head = f"event: {checked_field(event)}\n" if event is not None else ""
    if id is not None:
        head += f"id: {checked_field(id)}\n"
    return f"{head}data: {data}\n\n".encode("ascii")
