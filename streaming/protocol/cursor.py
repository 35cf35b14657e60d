"""Owns the wire form of a position in a log: event ids and what a client may send back. Does not look into any log."""

import re
from typing import NamedTuple

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_EVENT_ID = re.compile(r"([A-Za-z0-9_.-]{1,64}):([0-9]{1,10})\.([0-9]{1,10})", re.ASCII)


class CursorError(ValueError):
    """What the client sent is no position in this response's log. The message is safe to show."""


class Position(NamedTuple):
    """A place in one log. ``epoch`` is None when only a bare seq was given."""

    epoch: int | None
    seq: int


def format_event_id(response_id: str, epoch: int, seq: int) -> str:
    """The SSE ``id:`` of an event, e.g. ``resp_X:2.17``."""
    return f"{response_id}:{epoch}.{seq}"


def parse_last_event_id(text: str, response_id: str) -> Position:
    """Read a full event id of this response, or a bare seq."""
    if _NUMBER.fullmatch(text):
        return Position(None, int(text))
    match = _EVENT_ID.fullmatch(text)
    if match is None:
        raise CursorError("not an event id of a stream and not a sequence number")
    if match[1] != response_id:
        raise CursorError("an event id of another response")
    return Position(int(match[2]), int(match[3]))
