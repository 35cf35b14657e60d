"""Owns one worker's turn at one batch: asking its lines through our own API, some at once, and writing what came.

A line's request bears a key of its own, so who comes after a worker that was killed meets the answer that there is, or
is under way: answers run in the background and do not hang on the worker. Owns no row: every write may find it lost.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

from aiohttp import ClientSession
from django.conf import settings
from django.utils import timezone

from streaming.models import Batch, Response
from streaming.protocol import end_state
from streaming.protocol.batch_lines import Asked, answered, lines, read, unanswered
from streaming.protocol.policy import BACKGROUND
from streaming.store import batch_work, batches, files, task_tokens, threads
from streaming.store.batch_work import Result

from . import own_api
from .batch_reply import Meaning, meaning_of, pause_s

logger = logging.getLogger(__name__)

#: A worker that has not said so for this long is not at its batch any more; it says so each LOOK_S.
LEASE = timedelta(seconds=10)
LOOK_S = 1.0
#: A longer pause is not sat out: others have the turn.
PATIENCE_S = 30.0
ANSWER_BYTES = 4 * 1024 * 1024
HEADERS = {"X-Disconnect-Policy": BACKGROUND, "anthropic-version": "2023-06-01"}

#: By what a batch ends early, as its lines and its row say it.
CANCELLED = ("batch_cancelled", "The batch was cancelled before this request was answered.")
EXPIRED = ("batch_expired", "This request was not answered before the batch's window was over.")
KEY_GONE = ("key_revoked", "The API key that made the batch was removed.")
Numbered = tuple[int, bytes]


def lines_of(batch: Batch, longest_bytes: int) -> Iterator[Numbered]:
    """The lines of the batch's input."""
    return lines(files.content(batch.input_file_id), longest_bytes)


def left_of(batch: Batch) -> Iterator[Numbered]:
    """Those that have neither an answer nor an error yet. They were checked when the batch began."""
    done = batch_work.written(batch)
    return ((number, line) for number, line in lines_of(batch, settings.BATCH_FILE_BYTES) if number not in done)


def asked_by(batch: Batch, line: bytes) -> Asked:
    """A line that was checked."""
    return read(line, batch.endpoint, settings.BATCH_FILE_BYTES)


def line_id(batch: Batch, number: int) -> str:
    """How an answer's line is named."""
    return f"batch_req_{batch.id.removeprefix('batch_')}_{number}"


class Turn:
    """At a batch in progress. ``ending`` is why it ends early, ``pause_s`` for how long nothing can be asked."""

    def __init__(self, batch: Batch, lasts_s: float):
        self.batch = batch
        self.pause_s: float | None = None
        self._no_right: tuple[str, str] | None = None
        self._lasts_s = lasts_s
        self._until_s = 0.0
        self._left = left_of(batch)
        self._reading = asyncio.Lock()
        self._is_ending = asyncio.Event()

    @property
    def ending(self) -> tuple[str, str] | None:
        """The code and the message for every line that has no answer."""
        if self.batch.status == Batch.Status.CANCELLING:
            return CANCELLED
        if timezone.now() >= self.batch.expires_at:
            return EXPIRED
        return self._no_right if self.batch.api_key_id is not None else KEY_GONE

    async def work(self) -> None:
        """Ask until all lines are through, or the turn is over. Raises LostLease, among others, as a group."""
        self._until_s = asyncio.get_running_loop().time() + self._lasts_s
        async with own_api.session(None) as web, asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            asking = [group.create_task(self._ask_lines(web)) for _ in range(settings.BATCH_LINES_AT_ONCE)]
            await asyncio.wait(asking)
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look()
            if self.ending:
                await threads.write(batches.stop_lines, self.batch.id, "api")

    async def _look(self) -> None:
        self.batch = await threads.write(batch_work.renew, self.batch, LEASE)
        self._note_ending()

    def _note_ending(self) -> None:
        if self.ending:
            self._is_ending.set()

    @property
    def _goes_on(self) -> bool:
        is_over = asyncio.get_running_loop().time() >= self._until_s
        return not (is_over or self.ending or self.pause_s is not None)

    async def _ask_lines(self, web: ClientSession) -> None:
        while self._goes_on and (numbered := await self._next()) is not None:
            number, line = numbered
            try:
                # What is written is written whole: only the waiting is cut.
                async with asyncio.timeout_at(self._until_s):
                    result = await self._result(web, number, asked_by(self.batch, line))
            except TimeoutError:
                return
            if result is not None:
                await threads.write(batch_work.write, self.batch, [result])

    async def _next(self) -> Numbered | None:
        async with self._reading:
            return await threads.run(next, self._left, None)

    async def _result(self, web: ClientSession, number: int, asked: Asked) -> Result | None:
        """The line's answer, however often it has to be asked for; None where it has to wait for another turn."""
        tries = anew = 0
        while True:
            try:
                reply = await self._reply(web, number, asked, anew)
            except own_api.TooLong as error:
                said = unanswered(line_id(self.batch, number), asked.custom_id, "answer_too_long", str(error))
                return Result(number, said, is_error=True)
            meaning = await self._meaning(reply, tries)
            if reply and meaning in (Meaning.ANSWERED, Meaning.REFUSED):
                return self._written(number, asked, reply)
            if not await self._waited(pause_s(reply, tries)):
                return None
            tries, anew = tries + 1, anew + (meaning is Meaning.ANEW)

    async def _meaning(self, reply: own_api.Reply | None, tries: int) -> Meaning:
        """For this line; what it means for the others is remembered. None is no reply at all."""
        if reply is None:
            return Meaning.AGAIN
        if reply.error.get("end_state") == end_state.CANCELLED or reply.status == 401:
            await self._look()  # with its batch, or alone? a key, or a user, that is gone?
        meaning = meaning_of(reply, tries)
        if meaning is Meaning.NO_RIGHT:
            self._no_right = (str(reply.error.get("code")), str(reply.error.get("message")))
            self._note_ending()
        elif reply.status == 401 and not self.ending:
            logger.error("the site does not know the token of %s: SECRET_KEY differs, or a clock", self.batch.id)
        return Meaning.AGAIN if meaning is Meaning.REFUSED and self.ending else meaning

    def _written(self, number: int, asked: Asked, reply: own_api.Reply) -> Result:
        name = line_id(self.batch, number)
        line = answered(name, asked.custom_id, reply.status, reply.response_id, reply.body)
        return Result(number, line, is_error=reply.status != 200)

    async def _waited(self, seconds: float) -> bool:
        if seconds > PATIENCE_S * 1.25:
            self.pause_s = max(self.pause_s or 0.0, seconds)
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_ending.wait(), seconds)
        return not self.ending

    async def _reply(self, web: ClientSession, number: int, asked: Asked, anew: int) -> own_api.Reply | None:
        """None where nothing came that our API could have said. Raises TooLong."""
        batch = self.batch
        key = f"{batch.id}.{number}" + (f".{anew}" if anew else "")
        token = task_tokens.issue(batch.user_id, Response.Purpose.BATCH, batch.api_key_id)
        headers = {**HEADERS, "Idempotency-Key": key}
        try:
            return await own_api.post(
                web, batch.endpoint, token, asked.body, headers=headers, answer_bytes=ANSWER_BYTES
            )
        except own_api.FAILURES:
            return None
