"""Owns what every engine promises: requests in, outputs out, abort, health, load. Implements no wire."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.protocol.engine_output import EngineOutput, EngineUsage


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters that reach an engine: an allow-list, already validated and clamped.

    ``max_tokens`` is what is left to generate; ``stop`` is for engines that need to be told, the
    cut itself is made by our holdback. None means the engine's own default.
    """

    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    #: The answer must be JSON of this schema; only for engines that ``can_constrain``.
    json_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One attempt at a response. ``request_id`` is ``<response id>-<epoch>``, unique per attempt.

    ``prompt_ids`` already hold what an earlier attempt produced; ``messages`` are for engines that
    take text. ``produced_tokens`` counts what earlier attempts consumed (0 on the first).
    """

    request_id: str
    prompt_ids: Sequence[int]
    messages: Sequence[Mapping[str, Any]]
    sampling: Sampling
    cache_salt: str = ""
    priority: int = 0
    produced_tokens: int = 0
    #: For engines that take text: what the model may call, as chat completions say it, and what it must.
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str = "auto"
    one_call: bool = False


#: Statuses by which an engine says that it is busy, not that it was asked something wrong.
BUSY_STATUS = (408, 425, 429)


class EngineError(Exception):
    """An engine failed. ``reason`` is the end reason (protocol.end_state) that it leads to.

    ``upstream_error`` (it said so, or refused), ``upstream_protocol`` (bytes that make no sense),
    ``upstream_lost`` (EOF, reset or refused connection), ``engine_aborted`` (it gave up by itself).
    ``message`` is ours and safe to show; ``status`` is the engine's HTTP status where there was one.
    """

    def __init__(self, reason: str, message: str, status: int | None = None):
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status

    @property
    def is_refusal(self) -> bool:
        """Whether the engine works and does not want this request: no other would be of help, and it is no fault."""
        return self.status is not None and 400 <= self.status < 500 and self.status not in BUSY_STATUS

    @property
    def is_worth_another(self) -> bool:
        """Whether another engine, or this one a moment later, may well answer."""
        return self.reason == "upstream_lost" or (self.status is not None and not self.is_refusal)


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine says it is doing: requests being worked on, and waiting; the part of its KV cache in use."""

    running: int
    waiting: int
    kv_use: float | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """What an engine has made and read since it began; ``life`` is another number after each start, if it gives one."""

    generated_tokens: int
    prompt_tokens: int
    life: int | None = None


class Engine(ABC):
    """One engine endpoint. Safe for many concurrent ``generate`` calls on one event loop."""

    #: True when outputs are token ids (we detokenize), False when they are text.
    yields_ids: bool
    #: True when an answer can be carried on after a cut.
    can_continue: bool
    #: True when the endpoint makes the prompt out of the messages: then it knows its length, and we guess.
    renders_prompt = False
    #: True when the engine can show that it no longer works on a request: then it is worth asking again.
    can_prove_aborts: bool = True
    #: True when an answer can be held to a JSON schema.
    can_constrain: bool = False
    #: True when the engine takes tools and tells their calls apart itself.
    takes_tools: bool = False

    @abstractmethod
    def generate(self, request: GenerateRequest) -> AsyncGenerator[EngineOutput, None]:
        """Yield outputs as they come; the last has ``finish_reason``. Closing it aborts upstream.

        Raises EngineError. Running out without a finish_reason is ``upstream_lost``, raised here.
        """

    @abstractmethod
    async def abort_proven(self, request: GenerateRequest) -> bool:
        """After generate was closed: wait until the engine no longer works on the request.

        Returns True once the engine itself shows it. The caller bounds the wait by cancelling.
        """

    async def abort_again(self, request: GenerateRequest) -> bool:
        """Where the proof did not come: ask once more to stop; True once the engine shows that it has."""
        return await self.abort_proven(request)

    async def usage_at_abort(self, request: GenerateRequest) -> EngineUsage | None:
        """After generate was closed early: what the engine counted to its end; None where it does not say."""
        return None

    async def abort(self, request_id: str) -> None:  # noqa: B027
        """Abort an attempt that another process began, where an engine can be told by the attempt's name."""

    @abstractmethod
    async def healthy(self) -> bool:
        """Whether the endpoint answers. Proof that it generates is a probe response's job."""

    @abstractmethod
    async def load(self) -> Load:
        """What the engine reports of itself."""

    async def counters(self) -> Counters | None:
        """What it has counted of all its work; None where it does not say. Raises EngineError."""
        return None

    async def tokenize(self, text: str) -> list[int] | None:
        """The engine's own ids of a text, to compare with ours; None where it does not tell."""
        return None

    async def context_tokens(self) -> int | None:
        """How many tokens prompt and answer may have together; None where it does not tell."""
        return None

    async def slots(self) -> int | None:
        """How many requests it works on at once, the others waiting inside it; None where it does not tell."""
        return None

    @property
    def is_idle(self) -> bool:
        """Whether closing its connections would cut nothing off."""
        return True

    async def aclose(self) -> None:  # noqa: B027
        """Release connections."""
