"""Owns I/O with endpoints that take messages and give text: hosted providers, local chat servers. Knows no wire."""

import asyncio
import json
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import Any, ClassVar

from streaming.engine.base import Engine, EngineError, GenerateRequest, Load
from streaming.engine.upstream import EventStream, Upstream
from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.sse_parser import ServerSentEvent
from streaming.protocol.upstream import Reading, UpstreamFailure

logger = logging.getLogger(__name__)

#: How long after the finish_reason usage may still come.
LAST_WORDS_S = 2.0
LOGGED_CHARACTERS = 300
TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
TOO_LONG_WORDS = ("context length", "context window", "prompt is too long", "maximum model length")


class ChatEndpoint(Engine):
    """One endpoint. What it cannot prove it does not claim: closing the socket is all the abort there is.

    ``options``: ``api_key_env`` names the variable of the key, ``upstream_model`` what the endpoint calls the model.
    """

    yields_ids = False
    can_continue = False
    can_prove_aborts = False
    renders_prompt = True
    path: ClassVar[str]
    health_path: ClassVar[str]

    def __init__(self, upstream: Upstream, model: str, options: Mapping[str, Any], capabilities: Mapping[str, Any]):
        self.takes_tools = capabilities.get("tools") is not False
        self._upstream = upstream
        self._model = str(options.get("upstream_model") or model)
        self._running = 0

    @abstractmethod
    def body(self, request: GenerateRequest) -> dict[str, Any]:
        """The request in the endpoint's words."""

    @abstractmethod
    def reading(self, request: GenerateRequest) -> Reading:
        """A reader of one answer."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[EngineOutput, None]:
        reading = self.reading(request)
        self._running += 1
        try:
            stream = await self._upstream.open(self.path, self.body(request), explain_refusal)
            try:
                while (read := await next_read(stream, reading)) is not None:
                    for output in reading.read(read):
                        yield output
                    if reading.failure is not None:
                        raise reading.failure
            finally:
                stream.close()
            yield reading.close()
        except UpstreamFailure as failure:
            raise engine_error(failure) from failure
        finally:
            self._running -= 1

    async def abort_proven(self, request: GenerateRequest) -> bool:
        return False

    async def healthy(self) -> bool:
        """Any answer but a server's own trouble and a refused key: not every server lists its models."""
        try:
            await self._upstream.ask(self.health_path)
        except EngineError as error:
            return error.status is not None and error.status < 500 and error.status not in (401, 403)
        return True

    async def load(self) -> Load:
        """What this process asked for: such endpoints do not tell what others do."""
        return Load(running=self._running, waiting=0)

    @property
    def is_idle(self) -> bool:
        return self._upstream.open_requests == 0

    async def aclose(self) -> None:
        await self._upstream.aclose()


async def next_read(stream: EventStream, reading: Reading) -> list[ServerSentEvent] | None:
    """What the next read completed; None when there is nothing to wait for.

    Behind the finish_reason only usage can come: no silence, and no failure, counts there any more.
    """
    if reading.is_over:
        return None
    if reading.finish_reason is None:
        return await stream.read()
    try:
        async with asyncio.timeout(LAST_WORDS_S):
            return await stream.read()
    except (TimeoutError, EngineError):
        return None


def engine_error(failure: UpstreamFailure) -> EngineError:
    logger.warning("an engine failed: %s", failure.message)
    logger.debug("it says %r", failure.said[:LOGGED_CHARACTERS])
    return EngineError(failure.reason, failure.message)


def explain_refusal(body: bytes) -> str | None:
    """Our words for the one refusal that a caller can do something about: the prompt is too long."""
    try:
        error = json.loads(body)["error"]
        words = str(error.get("message", "")).lower()
        if error.get("code") in TOO_LONG_CODES or error.get("type") in TOO_LONG_CODES:
            return "the prompt is longer than the engine's context"
        if any(part in words for part in TOO_LONG_WORDS):
            return "the prompt is longer than the engine's context"
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        pass
    return None


def plain(message: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """A message with nothing but these fields, of those that it has."""
    return {name: message[name] for name in names if message.get(name) is not None}
