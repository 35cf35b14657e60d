"""Owns /ws/me/: one socket a tab, which tells what changed for the user and takes stops. Ids, never text."""

import asyncio
import json
import logging
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from streaming import ownership
from streaming.notify import CONVERSATIONS, SIGNED_OUT, Change
from streaming.ownership.stop import stop
from streaming.store import responses, threads

from . import standing
from .consumer import Consumer
from .words import AWAY, BAD_MESSAGE, TOO_FAST, Allowance, BadMessage, StopAsked, parse

logger = logging.getLogger(__name__)

#: What a page that takes nothing may leave waiting here; above it "look at everything" stands for all of it.
MOST_WAITING = 50
#: Stops of one socket that are being carried out.
MOST_STOPS = 4


class Me(Consumer):
    """Rows are the truth: what is said here only tells where to look. What waits for a slow page is bounded."""

    async def connect(self) -> None:
        """Let in who has a session."""
        self._waiting: dict[str, None] = {}
        self._stops: set[asyncio.Task[None]] = set()
        self._allowance = Allowance(asyncio.get_running_loop().time())
        await super().connect()

    async def entered(self, user_id: int) -> None:
        """From now on the page is told of changes; "hello" says so."""
        self._user_id = user_id
        changes = ownership.current().changes
        changes.follow(user_id, self._on_change)
        self.closing.callback(changes.unfollow, user_id, self._on_change)
        try:
            await standing.current().begin(user_id)
        except DatabaseError as error:
            logger.warning("a page cannot be told of changes: %s", error)
            self.close_soon(AWAY, "try again later")
        self._say({"type": "hello", "heartbeat_s": settings.HEARTBEAT_S})

    # In

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A message of the page."""
        if self.goodbye is not None:
            return
        if not self._allowance.takes(asyncio.get_running_loop().time()):
            self.close_soon(TOO_FAST, "too many messages")
            return
        try:
            asked = parse(text_data)
        except BadMessage as error:
            self.close_soon(BAD_MESSAGE, str(error))
            return
        if len(self._stops) >= MOST_STOPS:
            self._say({"type": "refused", "response": asked.response_id, "code": "rate_limited"})
            return
        stopping = asyncio.create_task(self._stop(asked))
        self._stops.add(stopping)
        stopping.add_done_callback(self._stops.discard)

    async def _stop(self, asked: StopAsked) -> None:
        answer: dict[str, Any] = {"type": "refused", "response": asked.response_id, "code": "unavailable"}
        try:
            response = await threads.run(responses.get, asked.response_id, self._user_id)
            if response is None:
                answer["code"] = "not_found"
            else:
                await stop(ownership.current(), response, "user")
                response = await threads.run(responses.get, asked.response_id, self._user_id)
                end_state = response.end_state if response else None
                answer = {"type": "stopped", "response": asked.response_id, "end_state": end_state}
        except DatabaseError as error:
            logger.warning("a stop could not be stored: %s", error)
        self._say(answer)

    # Out

    def _on_change(self, change: Change) -> None:
        if change.kind == SIGNED_OUT:
            ownership.guards().look_soon()
        else:
            self._say(change.to_message())

    def dismiss(self) -> None:
        """Called by the guards: the session has ended."""
        self._say({"type": SIGNED_OUT})
        super().dismiss()

    def _say(self, message: dict[str, Any]) -> None:
        """Soon; the same thing once, however often it is said before the page takes it."""
        if self.goodbye is not None:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.clear()
            message = Change(CONVERSATIONS).to_message()
        self._waiting[json.dumps(message)] = None
        self.woken.set()

    async def write(self) -> None:
        """Everything that goes out, in order; each send waits for the socket. A silence is broken by a heartbeat."""
        while True:
            try:
                async with asyncio.timeout(settings.HEARTBEAT_S):
                    await self.woken.wait()
            except TimeoutError:
                self._say({"type": "heartbeat"})
            self.woken.clear()
            while self._waiting:
                text = next(iter(self._waiting))
                del self._waiting[text]
                await self.send(text)
            if self.goodbye is not None:
                await self.close(*self.goodbye)
                return
