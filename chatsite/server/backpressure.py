"""Owns waiting for a socket that takes nothing more for now. What is written, and to whom, is not here."""

import asyncio

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer


@implementer(IPushProducer)
class Backpressure:
    """Twisted pauses it when the socket's buffer is full and resumes it when that is empty again, or gone."""

    _resumed: asyncio.Event | None = None

    def pauseProducing(self) -> None:
        if self._resumed is None:
            self._resumed = asyncio.Event()

    def resumeProducing(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()

    stopProducing = resumeProducing
