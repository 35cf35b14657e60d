"""Owns /ws/admin/live/: tells staff each second what runs. Takes no words; stopping is a request of its own."""

import asyncio
import json
import logging
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from streaming import ownership
from streaming.ownership.guards import Credential
from streaming.ownership.live import overview
from streaming.store import live, threads

from . import sockets
from .consumer import Consumer
from .words import BAD_MESSAGE, FULL, RESTARTING, SIGNED_OUT

logger = logging.getLogger(__name__)

NOT_ALLOWED = 4403
PERMISSION = "streaming.view_response"
EVERY_S = 1.0


class Live(Consumer):
    """What has not changed is not sent again, until a heartbeat is due."""

    async def connect(self) -> None:
        """Let in staff that may see responses; the origin was judged before."""
        self._goodbye: tuple[int, str] | None = None
        self._woken = asyncio.Event()
        await self.accept()
        self._writer = asyncio.create_task(self._write())
        self._closing.callback(self._writer.cancel)
        user = self.scope["user"]
        if user is None:
            self._close_soon(SIGNED_OUT, "log in first")
            return
        if sockets.current().leaving:
            self.send_away()
            return
        try:
            self._closing.enter_context(sockets.current().place(user.pk, self))
        except sockets.TooManySockets as full:
            self._close_soon(FULL, str(full))
            return
        ownership.guards().let_in(self, Credential(session_key=self.scope["session_key"]))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is said here."""
        self._close_soon(BAD_MESSAGE, "this socket takes no messages")

    def dismiss(self) -> None:
        """Called by the guards: the session has ended."""
        self._close_soon(SIGNED_OUT, "signed out")

    def send_away(self) -> None:
        """The process leaves."""
        self._close_soon(RESTARTING, "the server is restarting, connect again")

    def _close_soon(self, code: int, reason: str) -> None:
        if self._goodbye is None:
            self._goodbye = code, reason
            self._woken.set()

    async def _write(self) -> None:
        """Each send waits for the socket: a slow page gets fewer looks, not a queue of them."""
        loop = asyncio.get_running_loop()
        said, due, checked = "", 0.0, float("-inf")
        while self._goodbye is None:
            if loop.time() - checked > settings.CREDENTIAL_CHECK_S:
                checked = loop.time()
                await self._check()
                continue
            text = await self._look()
            if text != said or loop.time() > due:
                said, due = text, loop.time() + settings.HEARTBEAT_S
                await self.send(text)
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._woken.wait()
            except TimeoutError:
                pass
        await self.close(*self._goodbye)

    async def _check(self) -> None:
        """Rights may be taken away while somebody watches."""
        user = self.scope["user"]
        try:
            if user is not None and not await threads.run(live.may, user.pk, PERMISSION):
                self._close_soon(NOT_ALLOWED, "not allowed")
        except DatabaseError as error:
            logger.warning("could not look whether somebody may watch: %s", error)
            self._close_soon(RESTARTING, "try again")

    async def _look(self) -> str:
        message: dict[str, Any] = {"type": "live"}
        try:
            message |= await overview().now()
        except DatabaseError as error:
            logger.warning("could not look what runs: %s", error)
            message = {"type": "unknown"}
        return json.dumps(message)
