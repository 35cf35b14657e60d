"""Owns how many tokens engines have read for a response: a prompt for each of its rounds. Asks no engine."""

from typing import NamedTuple

from streaming.protocol.engine_output import EngineUsage


class Read(NamedTuple):
    """Prompt tokens, and those of them that a cache had; None where no engine said that."""

    prompt_tokens: int = 0
    cached_tokens: int | None = None

    def and_then(self, later: "Read") -> "Read":
        """Both together."""
        counts = [count for count in (self.cached_tokens, later.cached_tokens) if count is not None]
        return Read(self.prompt_tokens + later.prompt_tokens, sum(counts) if counts else None)


def read_of(usage: EngineUsage | None, prompt_tokens: int, renders_prompt: bool) -> Read:
    """In one round, whose prompt has so many tokens by our count; an engine that ``renders_prompt`` knows better."""
    if usage is not None and usage.prompt_tokens is not None and renders_prompt:
        prompt_tokens = usage.prompt_tokens
    cached_tokens = usage.cached_tokens if usage else None
    if cached_tokens is not None:
        # Who carries on reads, and has in its cache, also what was shown of the answer.
        cached_tokens = min(cached_tokens, prompt_tokens)
    return Read(prompt_tokens, cached_tokens)
