"""Owns how many tokens a response has read and made, over its attempts and its rounds. Asks no engine."""

from typing import Any, NamedTuple

from streaming.protocol.engine_output import EngineUsage
from streaming.protocol.response_stream import ResponseStream

from .account import Account
from .job import Outset


class Read(NamedTuple):
    """Prompt tokens, and those of them that a cache had; None where no engine said that."""

    prompt_tokens: int = 0
    cached_tokens: int | None = None

    def and_then(self, later: "Read") -> "Read":
        """Both together."""
        known = [count for count in (self.cached_tokens, later.cached_tokens) if count is not None]
        return Read(self.prompt_tokens + later.prompt_tokens, sum(known) if known else None)


def read_of(usage: EngineUsage | None, prompt_tokens: int, renders_prompt: bool) -> Read:
    """In one round, whose prompt has so many tokens by our count; an engine that ``renders_prompt`` knows better."""
    if usage is not None and usage.prompt_tokens is not None and renders_prompt:
        prompt_tokens = usage.prompt_tokens
    cached_tokens = usage.cached_tokens if usage else None
    if cached_tokens is not None:
        # Who carries on reads, and has in its cache, also what was shown of the answer.
        cached_tokens = min(cached_tokens, prompt_tokens)
    return Read(prompt_tokens, cached_tokens)


class Tally:
    """Of one response. ``prompt_tokens`` are those of the round in which its owner begins, behind ``rounds`` others."""

    def __init__(self, account: Account, rounds: int, prompt_tokens: int):
        #: What engines made that is no part of the stream: another begins behind what was stored.
        self.lost_tokens = 0
        self.stream: ResponseStream | None = None
        self._account = account
        #: In the rounds that are over; and the prompt of the one that runs, None between two.
        self._read = Read()
        for earlier in account.read_in(rounds):
            self._read = self._read.and_then(Read(*earlier))
        self._prompt_tokens: int | None = prompt_tokens
        self._renders_prompt = False

    @property
    def generated_tokens(self) -> int:
        """All that engines made so far."""
        return self.lost_tokens + (self.stream.generated_tokens if self.stream else 0)

    def begin(self, outset: Outset, renders_prompt: bool, resumes: bool) -> ResponseStream:
        """An attempt begins; one that ``resumes`` may begin behind less than was made."""
        if resumes:
            made = max(self.generated_tokens, self._account.generated_tokens)
            self.lost_tokens = max(0, made - outset.stream.generated_tokens)
        self.stream, self._prompt_tokens, self._renders_prompt = outset.stream, outset.prompt_tokens, renders_prompt
        return outset.stream

    def round_is_over(self, stream: ResponseStream) -> None:
        """What was read for it is known."""
        self._read, self._prompt_tokens = self._read_with(stream), None

    def counts(self, stream: ResponseStream, sent_tokens: int) -> dict[str, Any]:
        """The tokens by what became of them, for the end."""
        read = self._read_with(stream)
        return {
            "prompt_tokens": read.prompt_tokens,
            "cached_tokens": read.cached_tokens,
            "generated_tokens": max(self.generated_tokens, sent_tokens),
            "completion_tokens": stream.completion_tokens,
            "sent_tokens": sent_tokens,
        }

    def _read_with(self, stream: ResponseStream) -> Read:
        if self._prompt_tokens is None:
            return self._read
        return self._read.and_then(read_of(stream.usage, self._prompt_tokens, self._renders_prompt))
