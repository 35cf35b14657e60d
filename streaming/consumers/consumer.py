"""Owns what every socket has: who gets in, its place, one writer, a reasoned close, nothing left behind. No words."""

import asyncio
import logging
from contextlib import ExitStack
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

from streaming import ownership
from streaming.ownership.guards import Credential

from . import sockets
from .words import BROKEN, FULL, RESTARTING, SIGNED_OUT

logger = logging.getLogger(__name__)


class Consumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """``write`` alone sends and closes, once ``goodbye`` is set; ``woken`` tells it that there is something to do.

    What a socket takes in the process is put on ``closing``.
    """

    # No channel of its own: the process hears for all its pages (streaming.notify.Changes).
    channel_layer_alias = "none"

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Until the socket is gone, or its application broke or was cut off: then nobody calls ``disconnect``."""
        with ExitStack() as self.closing:
            await super().__call__(scope, receive, send)

    async def connect(self) -> None:
        """Let in who has a session; the origin was judged before."""
        self.woken = asyncio.Event()
        self.goodbye: tuple[int, str] | None = None
        await self.accept()
        writer = asyncio.create_task(self._write_on())
        self.closing.callback(writer.cancel)
        user: Any = self.scope["user"]
        if user is None:
            self.close_soon(SIGNED_OUT, "log in first")
        elif sockets.current().leaving:
            self.send_away()
        else:
            await self._enter(user.pk)

    async def _enter(self, user_id: int) -> None:
        try:
            self.closing.enter_context(sockets.current().place(user_id, self))
        except sockets.TooManySockets as full:
            self.close_soon(FULL, str(full))
            return
        ownership.guards().let_in(self, Credential(session_key=self.scope["session_key"]))
        await self.entered(user_id)

    async def entered(self, user_id: int) -> None:
        """The page is in."""

    async def _write_on(self) -> None:
        """Where a fault of ours ends the writing, the page has to know that nobody tells it anything any more."""
        try:
            await self.write()
        except Exception:
            logger.exception("what a page is told broke off")
            await self.close(BROKEN, "the server failed, connect again")

    async def write(self) -> None:
        """Send what there is to say, until there is a goodbye; then close with it."""
        raise NotImplementedError

    def dismiss(self) -> None:
        """Called by the guards: the session has ended."""
        self.close_soon(SIGNED_OUT, "signed out")

    def send_away(self) -> None:
        """The process leaves."""
        self.close_soon(RESTARTING, "the server is restarting, connect again")

    def close_soon(self, code: int, reason: str) -> None:
        """Close as soon as what was said is sent; the first reason counts."""
        if self.goodbye is None:
            self.goodbye = code, reason
            self.woken.set()
