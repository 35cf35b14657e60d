"""Owns the stream by which `manage.py probe` sees what hops do: a known pattern, with an API key. No engine, no row."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Annotated, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field, model_validator

from streaming import ownership
from streaming.admission import ReaderCaps, TooMany
from streaming.protocol.sse import frame

from .answering import READERS_RETRY_S, STREAM_HEADERS
from .auth import caller, credential
from .errors import ApiError, error_body

router = Router()

MOST_S = 3600.0
#: Of the process and of one user in it.
MOST_STREAMS, MOST_STREAMS_PER_USER = 64, 16
ROUTE = "diagnostics"

_caps = ReaderCaps(MOST_STREAMS, MOST_STREAMS_PER_USER)


class Pattern(Schema):
    """``events`` events, one each ``interval_ms``, with a silence before the last. ``end`` is how it ends."""

    events: Annotated[int, Field(ge=1, le=500)] = 20
    interval_ms: Annotated[int, Field(ge=10, le=5000)] = 200
    silence_s: Annotated[float, Field(ge=0, le=MOST_S)] = 0
    end: Literal["done", "error"] = "done"

    @model_validator(mode="after")
    def is_bounded(self) -> "Pattern":
        """It ends within an hour."""
        total_s = self.events * self.interval_ms / 1000 + self.silence_s
        if total_s > MOST_S:
            raise ValueError(f"the stream would take {total_s:g} s; at most {MOST_S:g} s")
        return self


@router.get("/diagnostics/stream", include_in_schema=False)
async def stream(request: HttpRequest, pattern: Query[Pattern]) -> HttpResponse:
    """A stream that only hops can change: its events say when they left. No heart beats in it."""
    user_id = caller(request).user.pk
    try:
        _caps.check(user_id, ROUTE)
    except TooMany as full:
        headers = {"Retry-After": f"{READERS_RETRY_S:g}"}
        raise ApiError(429, f"diagnostics: {full}", code="rate_limited", headers=headers) from None
    closing = ExitStack()
    closing.enter_context(_caps.place(user_id, ROUTE))
    handover = TrickleHandover(pattern, closing)
    ownership.guards().let_in(handover, credential(request))
    request.scope["handover"] = handover  # type: ignore[attr-defined]
    answer = HttpResponse(content_type="text/event-stream; charset=utf-8")
    for name, value in STREAM_HEADERS.items():
        answer.headers[name] = value
    return answer


class TrickleHandover:
    """The pattern, sent after Django's request."""

    def __init__(self, pattern: Pattern, closing: ExitStack):
        self._pattern = pattern
        self._closing = closing
        self._dismissed = asyncio.Event()

    async def opening(self) -> AsyncIterator[bytes]:
        """At once: there is nothing to wait for."""
        return self._frames()

    async def _frames(self) -> AsyncIterator[bytes]:
        loop, pattern = asyncio.get_running_loop(), self._pattern
        started_s = loop.time()
        for number in range(pattern.events):
            due_s = started_s + number * pattern.interval_ms / 1000
            if number == pattern.events - 1:
                due_s += pattern.silence_s
            if await self._is_dismissed_within(due_s - loop.time()):
                yield _error(503, "the stream ends: the key or the process does", "stream_detached")
                return
            sent_ms = round((loop.time() - started_s) * 1000, 3)
            yield frame(json.dumps({"number": number, "sent_ms": sent_ms}))
        yield _error(500, "an error in band, as asked for", "diagnostic") if pattern.end == "error" else frame("[DONE]")

    async def _is_dismissed_within(self, wait_s: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, wait_s)):
                return await self._dismissed.wait()
        except TimeoutError:
            return False

    def dismiss(self) -> None:
        """The key is no longer good, or the process leaves."""
        self._dismissed.set()

    def close(self) -> None:
        """The connection is gone or done."""
        self._dismissed.set()
        self._closing.close()


def _error(status: int, message: str, code: str) -> bytes:
    return frame(json.dumps(error_body(status, message, code=code)))
