"""Owns what a relay is asked to do: the prompt, the sampling and the limits of one response. Does nothing itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streaming.engine.base import GenerateRequest, Sampling
from streaming.protocol.policy import Policy
from streaming.protocol.response_stream import ResponseStream
from streaming.store.attempts import name_of


@dataclass(frozen=True, slots=True)
class Limits:
    """The four timers, the patience for an engine's proof of an abort, and the cap without a reader."""

    queue_s: float
    ttft_s: float
    idle_s: float
    total_s: float
    stop_proof_s: float
    unattended_tokens: int


@dataclass(frozen=True, slots=True)
class Outset:
    """What an attempt begins with: the pure state, and the prompt with what was made after it.

    ``prompt_tokens`` are those of the round's prompt alone. In a later round the prompt is that of ``messages``, the
    context has ``room_tokens`` left, and an earlier round has met what the answer was held to.
    """

    stream: ResponseStream
    prompt_ids: Sequence[int]
    prompt_tokens: int
    messages: Sequence[Mapping[str, Any]] | None = None
    room_tokens: int | None = None

    @property
    def is_later(self) -> bool:
        """Whether it is a later round's."""
        return self.messages is not None


@dataclass(frozen=True, slots=True)
class Job:
    """One response to produce. Without ``messages`` it goes on from what is stored of it.

    ``prompt_tokens`` are those of the prompt of the round that it begins in.
    """

    response_id: str
    epoch: int
    model: str
    prompt_ids: Sequence[int]
    prompt_tokens: int
    sampling: Sampling
    policy: Policy
    #: Whether its caller is handed it piece by piece.
    stream: bool = True
    messages: Sequence[Mapping[str, Any]] = ()
    cache_salt: str = ""
    priority: int = 0
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str = "auto"
    one_call: bool = False
    #: Names of our own tools, whose calls are run.
    run_tools: Sequence[str] = ()
    conversation: str = ""
    #: What owners before this one have stored of theirs.
    earlier_attempts: Sequence[Mapping[str, Any]] = ()

    def outset(self, stream: ResponseStream) -> Outset:
        """That of an answer of which nothing was made yet."""
        return Outset(stream, self.prompt_ids, self.prompt_tokens)

    def request(self, outset: Outset, attempt: int = 1) -> GenerateRequest:
        """The engine's request for what is left to generate; each attempt has its own name."""
        left = self.sampling.max_tokens - outset.stream.completion_tokens
        if outset.room_tokens is not None:
            left = min(left, outset.room_tokens)
        sampling = replace(self.sampling, max_tokens=max(1, left))
        return GenerateRequest(
            request_id=name_of(self.response_id, self.epoch, attempt),
            prompt_ids=outset.prompt_ids,
            messages=self.messages if outset.messages is None else outset.messages,
            sampling=replace(sampling, json_schema=None) if outset.is_later else sampling,
            cache_salt=self.cache_salt,
            priority=self.priority,
            produced_tokens=outset.stream.round_tokens,
            tools=self.tools,
            tool_choice="auto" if outset.is_later else self.tool_choice,
            one_call=self.one_call,
        )
