"""Owns what a view hands over to be sent after Django's request: a stream, or one JSON body. Knows no ASGI."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

from chatsite.handover import Answer
from streaming.protocol.dialects.base import Encoder
from streaming.protocol.end_state import ABANDONED, CANCELLED, COMPLETED, ERRORED, TIMED_OUT, TRUNCATED
from streaming.protocol.events import ENDED, Event
from streaming.reader import Reader

from .errors import error_body

JSON_HEADERS = ((b"content-type", b"application/json"),)
#: Somebody wanted this end: a stream says it in band, also as its first event.
NO_FAILURE = frozenset({CANCELLED, ABANDONED})
#: The status of a failure that is known before the first byte, by end state and, where it differs, reason.
STATUS = {CANCELLED: 409, ABANDONED: 409, ERRORED: 502, TIMED_OUT: 504, TRUNCATED: 502}
STATUS_OF_REASON = {"queue": 503, "storage": 503, "internal": 500}
RETRY_AFTER = (b"retry-after", b"5")


class StreamHandover:
    """A stream of frames. ``early_s`` is how long the status waits for the first event; then it is 200.

    With ``refuses`` a response that fails before its first output is answered with the failure's status.
    """

    def __init__(self, reader: Reader, encoder: Encoder, closing: ExitStack, *, early_s: float, refuses: bool):
        self._reader = reader
        self._encoder = encoder
        self._closing = closing
        self._early_s = early_s
        self._refuses = refuses

    async def opening(self) -> Answer | AsyncIterator[bytes]:
        """Wait for the first stored event, the end, or ``early_s``; who comes back has seen that there is one."""
        if not self._refuses:
            return self._reader.frames(is_silent=True)
        try:
            async with asyncio.timeout(self._early_s):
                first = await self._reader.first()
        except TimeoutError:
            return self._reader.frames(is_silent=True)
        if first and first.kind == ENDED and first.payload["end_state"] not in NO_FAILURE:
            return failure_answer(first, self._encoder) or self._reader.frames()
        return self._reader.frames()

    def close(self) -> None:
        """Leave the tail; the policy decides what becomes of the response."""
        self._closing.close()


class BodyHandover:
    """The whole answer as one JSON body, once it has ended."""

    def __init__(self, reader: Reader, encoder: Encoder, closing: ExitStack):
        self._reader = reader
        self._encoder = encoder
        self._closing = closing

    async def opening(self) -> Answer:
        """Wait for the end."""
        events = await self._reader.all()
        if not events:
            body = error_body(503, "the server is stopping; ask again", code="unavailable")
            return _failure(self._encoder, 503, body)
        if answer := failure_answer(events[-1], self._encoder):
            return answer
        self._reader.delivered_all(events)
        return _json(200, self._encoder.body(events))

    def close(self) -> None:
        """Leave the tail; the policy decides what becomes of the response."""
        self._closing.close()


def failure_answer(ended: Event, encoder: Encoder) -> Answer | None:
    """The JSON answer for a response that ended without completing; None when it completed."""
    end_state, end_reason = ended.payload["end_state"], ended.payload["end_reason"]
    if end_state == COMPLETED:
        return None
    status = STATUS_OF_REASON.get(end_reason) or STATUS.get(end_state, 502)
    error = ended.payload.get("error") or {}
    message = error.get("message") or f"The response ended {end_state} ({end_reason})."
    extra = {"end_state": end_state, "end_reason": end_reason, "usage": ended.payload.get("usage")}
    body = error_body(status, message, code=error.get("code") or end_state, extra=extra)
    return _failure(encoder, status, body)


def _failure(encoder: Encoder, status: int, body: dict[str, Any]) -> Answer:
    shown, body = encoder.failure(status, body)
    return _json(shown, body, *([RETRY_AFTER] if status == 503 else []))


def _json(status: int, body: dict[str, Any], *headers: tuple[bytes, bytes]) -> Answer:
    return Answer(status, json.dumps(body).encode(), (*JSON_HEADERS, *headers))
