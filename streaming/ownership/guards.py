"""Owns ending readers who may not stay: a revoked key, an ended session, a process that leaves. Stops no answer."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import DatabaseError

from streaming.store import access, threads

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credential:
    """What a reader was let in with: an API key's id, a session's key, or a token that lives no longer than a task."""

    api_key_id: int | None = None
    session_key: str | None = None
    is_task: bool = False


class Admitted(Protocol):
    """A reader, or a page's socket."""

    def dismiss(self) -> None:
        """It may not stay: end it."""


class Guards:
    """Who was let into this process and stays, with their credentials; looked at together, not one by one."""

    def __init__(self) -> None:
        self._let_in: WeakKeyDictionary[Admitted, Credential] = WeakKeyDictionary()
        self._asked = asyncio.Event()

    def let_in(self, reader: Admitted, credential: Credential) -> None:
        """Remember with what the reader came; forgotten when it is gone."""
        self._let_in[reader] = credential

    def dismiss_all(self) -> None:
        """The process leaves: also the readers of what other processes run must go on elsewhere."""
        for reader in list(self._let_in):
            reader.dismiss()

    def look_soon(self) -> None:
        """A session ended: whose, the rows say."""
        self._asked.set()

    async def run(self) -> None:
        """Look every CREDENTIAL_CHECK_S, or when asked, for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.CREDENTIAL_CHECK_S):
                    await self._asked.wait()
            self._asked.clear()
            try:
                await self.look()
            except DatabaseError as error:
                logger.warning("could not check who may still read: %s", error)

    async def look(self) -> None:
        """Dismiss readers whose key was revoked or has expired, or whose session is: three queries at most."""
        readers = {reader: credential for reader, credential in self._let_in.items() if not credential.is_task}
        if not readers:
            return
        keys = {c.api_key_id for c in readers.values() if c.api_key_id is not None}
        sessions = {c.session_key for c in readers.values() if c.session_key}
        good = await threads.run(access.still_good, keys, sessions)
        for reader, credential in readers.items():
            if credential.api_key_id not in good and credential.session_key not in good:
                reader.dismiss()
