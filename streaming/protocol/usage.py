"""Owns how the reports of an engine make one, and how a stored count is read. Does not count."""

from collections.abc import Mapping
from typing import Any

from .engine_output import EngineUsage


def latest(earlier: EngineUsage | None, reported: EngineUsage) -> EngineUsage:
    """Reports are cumulative: what the newer one gives counts, what it leaves out stays."""
    if earlier is None:
        return reported
    return EngineUsage(
        earlier.prompt_tokens if reported.prompt_tokens is None else reported.prompt_tokens,
        earlier.completion_tokens if reported.completion_tokens is None else reported.completion_tokens,
        earlier.cached_tokens if reported.cached_tokens is None else reported.cached_tokens,
    )


def count(usage: Mapping[str, Any], name: str) -> int:
    """A count from a stored ``usage``; 0 when it is missing or unknown, as wires have no null there."""
    return usage.get(name) or 0
