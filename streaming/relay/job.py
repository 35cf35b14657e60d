"""Owns what a relay is asked to do: the prompt, the sampling and the limits of one response. Does nothing itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streaming.engine.base import GenerateRequest, Sampling
from streaming.protocol.policy import Policy
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
class Job:
    """One response to produce. ``prompt_ids`` include what an earlier attempt produced."""

    response_id: str
    epoch: int
    model: str
    prompt_ids: Sequence[int]
    prompt_tokens: int
    sampling: Sampling
    policy: Policy
    messages: Sequence[Mapping[str, Any]] = ()
    cache_salt: str = ""
    priority: int = 0
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str = "auto"
    one_call: bool = False
    conversation: str = ""
    #: What owners before this one have stored of theirs.
    earlier_attempts: Sequence[Mapping[str, Any]] = ()

    def request(self, produced_tokens: int, attempt: int = 1) -> GenerateRequest:
        """The engine's request: what is left to generate after ``produced_tokens``; each attempt has its own name."""
        left = max(1, self.sampling.max_tokens - produced_tokens)
        return GenerateRequest(
            request_id=name_of(self.response_id, self.epoch, attempt),
            prompt_ids=self.prompt_ids,
            messages=self.messages,
            sampling=replace(self.sampling, max_tokens=left),
            cache_salt=self.cache_salt,
            priority=self.priority,
            produced_tokens=produced_tokens,
            tools=self.tools,
            tool_choice=self.tool_choice,
            one_call=self.one_call,
        )
