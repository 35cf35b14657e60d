"""Owns that a document of the provider is asked for rarely, however many people knock. Knows no document."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from .client import Away

#: How long a document is believed.
KEEP_S = 3600.0
#: After a failure nobody asks again for so long.
REST_S = 10.0
#: So far apart are two looks at a document because somebody missed something in it.
RENEW_PAUSE_S = 30.0
NEVER = float("-inf")

Document = TypeVar("Document")


class Kept(Generic[Document]):
    """One document: one request for all who wait for it, an hour of use, a rest after a failure."""

    def __init__(self, fetch: Callable[[], Awaitable[Document]]):
        self._fetch = fetch
        self._asking: asyncio.Task[None] | None = None
        self._document: Document | None = None
        self._failure = ""
        self._stale_at = self._rests_until = self._renewed_at = NEVER

    async def get(self) -> Document:
        """The document, an old one where no new one can be had. Raises Away."""
        if self._document is None or time.monotonic() >= self._stale_at:
            await self._ask()
        return self._have()

    async def renew(self) -> Document:
        """Asked for anew, unless that was done a moment ago."""
        if time.monotonic() >= self._renewed_at + RENEW_PAUSE_S:
            self._renewed_at = time.monotonic()
            await self._ask()
        return self._have()

    async def _ask(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._asked())
        # Not ended by one who goes away: who comes and goes quickly would keep it from everybody.
        await asyncio.shield(self._asking)

    async def _asked(self) -> None:
        if time.monotonic() < self._rests_until:
            return
        try:
            self._document = await self._fetch()
        except Away as away:
            self._failure = str(away)
            self._rests_until = time.monotonic() + REST_S
        else:
            self._stale_at = time.monotonic() + KEEP_S

    def _have(self) -> Document:
        if self._document is None:
            raise Away(self._failure)
        return self._document
