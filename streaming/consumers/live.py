"""Owns /ws/admin/live/: tells staff each second what runs. Takes no words; stopping is a request of its own."""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from streaming.ownership.live import overview
from streaming.store import live, threads

from .consumer import Consumer
from .words import BAD_MESSAGE, RESTARTING

logger = logging.getLogger(__name__)

NOT_ALLOWED = 4403
PERMISSION = "streaming.view_response"
EVERY_S = 1.0


class Live(Consumer):
    """What has not changed is not sent again, until a heartbeat is due."""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is said here."""
        self.close_soon(BAD_MESSAGE, "this socket takes no messages")

    async def write(self) -> None:
        """Each send waits for the socket: a slow page gets fewer looks, not a queue of them."""
        loop = asyncio.get_running_loop()
        said, due, checked = "", 0.0, float("-inf")
        while self.goodbye is None:
            if loop.time() - checked > settings.CREDENTIAL_CHECK_S:
                checked = loop.time()
                await self._check()
                continue
            text = await self._look()
            if text != said or loop.time() > due:
                said, due = text, loop.time() + settings.HEARTBEAT_S
                await self.send(text)
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self.woken.wait()
        await self.close(*self.goodbye)

    async def _check(self) -> None:
        """Rights may be taken away while somebody watches."""
        try:
            if not await threads.run(live.may, self.scope["user"].pk, PERMISSION):
                self.close_soon(NOT_ALLOWED, "not allowed")
        except DatabaseError as error:
            logger.warning("could not look whether somebody may watch: %s", error)
            self.close_soon(RESTARTING, "try again")

    async def _look(self) -> str:
        message: dict[str, Any] = {"type": "live"}
        try:
            message |= await overview().now()
        except DatabaseError as error:
            logger.warning("could not look what runs: %s", error)
            message = {"type": "unknown"}
        return json.dumps(message)
