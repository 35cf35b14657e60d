"""Owns what all dialects share: head, encoder interface, groups of events, error objects. Knows no dialect."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from ..end_state import default_message
from ..events import ENDED, Event, run_key
from ..sse import frame

DETACHED = "stream_detached"


@dataclass(frozen=True, slots=True)
class Head:
    """What an encoder knows of its response beside the events.

    The last three are for the page's chats. ``asked`` are fields of the request that a response object repeats.
    """

    response_id: str
    model: str
    created_s: int
    include_usage: bool = False
    prompt_tokens: int = 0
    asked: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str | None = None
    user_message_id: str | None = None
    message_id: str | None = None


class Encoder(Protocol):
    """One connection's view of a response in one dialect.

    Events go in once and in order, through ``fold`` up to the connection's cursor and through
    ``encode`` after it; how they are cut into calls changes which deltas merge, nothing else.
    """

    def fold(self, events: Sequence[Event]) -> None:
        """Take note of events before the cursor, silently."""

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of these events. Adjacent deltas of one kind are one frame; a group's last frame has the id."""

    def ending(self, events: Sequence[Event]) -> Iterator[bytes]:
        """As ``encode`` where the last event is the end, piece by piece: a dialect may repeat the answer there."""

    def body(self, events: Sequence[Event]) -> dict[str, Any]:
        """The answer as one object, from all events. An end without an answer is ``{"error": …}`` or marked inside."""

    def detached(self, last_event_id: str) -> bytes:
        """The connection frame that sends the reader away to resume; no id, no event behind it."""

    def failure(self, status: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the body for a response that failed before the first byte, from OpenAI's of both."""


def groups(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Runs of adjacent deltas of one kind, or of one tool call; every other event is a group of its own."""
    for key, run in groupby(events, key=run_key):
        if key is None:
            yield from [[event] for event in run]
        else:
            yield list(run)


def text_of(group: Sequence[Event]) -> str:
    """The text of a group of deltas."""
    if len(group) == 1:
        text: str = group[0].payload["text"]
        return text
    return "".join([event.payload["text"] for event in group])


def ended_payload(events: Sequence[Event]) -> Mapping[str, Any] | None:
    """The payload of the end, None while the response runs."""
    return events[-1].payload if events and events[-1].kind == ENDED else None


def dumps(value: object) -> str:
    """JSON for a ``data:`` line: ASCII, so that no reader splits it at an exotic line end; never NaN."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def error_object(ended: Mapping[str, Any]) -> dict[str, Any]:
    """The in-band error of an end that is not completed."""
    error = ended.get("error") or {}
    return {
        "message": error.get("message") or default_message(ended["end_state"], ended["end_reason"]),
        "type": ended["end_state"],
        "code": error.get("code") or ended["end_reason"],
        "param": None,
        "end_state": ended["end_state"],
        "end_reason": ended["end_reason"],
    }


def detached_error(last_event_id: str) -> dict[str, Any]:
    """Why a connection gets no more, and where the reader goes on."""
    return {
        "code": DETACHED,
        "message": "The stream was detached before the answer was complete. Resume it from last_event_id.",
        "type": DETACHED,
        "resumable": True,
        "last_event_id": last_event_id,
    }


def detached(last_event_id: str) -> bytes:
    """The form both official SDKs notice in the middle of a stream; a bare end would pass for success."""
    return frame(dumps({"error": detached_error(last_event_id)}))
