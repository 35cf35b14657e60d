"""Owns how public ids are made: a prefix and a ULID, so that they sort by time. Knows no table."""

import time

from ulid import ULIDGenerator

_STARTED_MS = time.time_ns() // 10**6 - time.monotonic_ns() // 10**6


def _rising_ms() -> int:
    """The time of day as it was at the start, carried on by a clock that nobody sets back: ids order a thread."""
    return _STARTED_MS + time.monotonic_ns() // 10**6


_ulids = ULIDGenerator(clock=_rising_ms)


def response_id() -> str:
    """A new response id, ``resp_`` and 26 characters of Crockford base 32."""
    return f"resp_{_ulids.generate()}"


def conversation_id() -> str:
    """A new conversation id."""
    return f"conv_{_ulids.generate()}"


def message_id() -> str:
    """A new message id."""
    return f"msg_{_ulids.generate()}"
