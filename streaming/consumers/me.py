"""Owns /ws/me/: one socket a tab; tells what changed for the user, takes stops and who reads. Ids, never text."""

import asyncio
import json
import logging
from collections.abc import Coroutine
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from streaming import ownership
from streaming.notify import CONVERSATIONS, ENDED, SIGNED_OUT, Change
from streaming.ownership.stop import stop
from streaming.store import responses, threads

from . import standing
from .consumer import Consumer
from .standins import NotCounted, Standins
from .words import AWAY, BAD_MESSAGE, NOT_READING, READING, STOP, TOO_FAST, Allowance, Asked, BadMessage, parse

logger = logging.getLogger(__name__)

#: What a page that takes nothing may leave waiting here; above it "look at everything" stands for all of it.
MOST_WAITING = 50
#: Stops of one socket that are being carried out; what else it asked for is bounded by its Allowance.
MOST_STOPS = 4


class Me(Consumer):
    """Rows are the truth: what is said here only tells where to look. What waits for a slow page is bounded."""

    async def connect(self) -> None:
        """Let in who has a session."""
        self._waiting: dict[str, None] = {}
        self._stops: set[asyncio.Task[None]] = set()
        self._entering: set[asyncio.Task[None]] = set()
        self._allowance = Allowance(asyncio.get_running_loop().time())
        await super().connect()

    async def entered(self, user_id: int) -> None:
        """From now on the page is told of changes; "hello" says so."""
        self._user_id = user_id
        self._standins = Standins(user_id)
        self.closing.callback(self._give_back)
        changes = ownership.current().changes
        changes.follow(user_id, self._on_change)
        self.closing.callback(changes.unfollow, user_id, self._on_change)
        try:
            await standing.current().begin(user_id)
        except DatabaseError as error:
            logger.warning("a page cannot be told of changes: %s", error)
            self.close_soon(AWAY, "try again later")
        self._say({"type": "hello", "heartbeat_s": settings.HEARTBEAT_S})

    def _give_back(self) -> None:
        """The socket is gone: whoever read by it does not."""
        for entering in self._entering:
            entering.cancel()
        self._standins.close()

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
        if asked.kind == STOP:
            self._begin_stop(asked)
        elif asked.kind == READING:
            self._run(self._entering, self._enter_standin(asked.response_id))
        else:
            self._standins.leave(asked.response_id)

    @staticmethod
    def _run(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _begin_stop(self, asked: Asked) -> None:
        if len(self._stops) >= MOST_STOPS:
            self._say({"type": "refused", "response": asked.response_id, "code": "rate_limited"})
        else:
            self._run(self._stops, self._stop(asked))

    async def _stop(self, asked: Asked) -> None:
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
        except Exception:
            logger.exception("%s could not be stopped", asked.response_id)
        self._say(answer)

    async def _enter_standin(self, response_id: str) -> None:
        answer = {"type": NOT_READING, "response": response_id, "code": "unavailable"}
        try:
            if not await self._standins.enter(response_id):
                return
            standing.current().expect(self._user_id, response_id)
            answer = {"type": READING, "response": response_id}
        except NotCounted as reason:
            answer["code"] = str(reason)
        except DatabaseError as error:
            logger.warning("a page cannot be counted as a reader: %s", error)
        except Exception:
            logger.exception("a page cannot be counted as a reader of %s", response_id)
        self._say(answer)

    # Out

    def _on_change(self, change: Change) -> None:
        if change.kind == SIGNED_OUT:
            ownership.guards().look_soon()
            return
        if change.kind == ENDED and change.response:
            self._standins.leave(change.response)
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
            self._forget_standins()
        self._waiting[json.dumps(message)] = None
        self.woken.set()

    def _forget_standins(self) -> None:
        """That one of their answers ended may have been among what is not said."""
        for response_id in self._standins.responses:
            self._standins.leave(response_id)
            self._waiting[json.dumps({"type": NOT_READING, "response": response_id, "code": "missed"})] = None

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
