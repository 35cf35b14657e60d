"""Owns how public ids are made: a prefix and a ULID, so that they sort by time; and that time. Knows no table."""

import time
from datetime import UTC, datetime

from ulid import ULID, ULIDGenerator

#: One that nobody sets, and that goes on while the machine sleeps, where there is such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_STARTED_NS = time.time_ns() - time.clock_gettime_ns(_CLOCK)


def _rising_ns() -> int:
    """The time of day as it was at the start, carried on by a clock that nobody sets back: ids order a thread."""
    return _STARTED_NS + time.clock_gettime_ns(_CLOCK)


def rising_now() -> datetime:
    """The time for what is put in order by it."""
    return datetime.fromtimestamp(_rising_ns() / 10**9, UTC)


def _rising_ms() -> int:
    return _rising_ns() // 10**6


_ulids = ULIDGenerator(clock=_rising_ms)


def response_id() -> str:
    """A new response id, ``resp_`` and 26 characters of Crockford base 32."""
    return f"resp_{_ulids.generate()}"


def first_response_id(at: datetime) -> str:
    """The least id that a response of this time can have."""
    return f"resp_{ULID.from_bytes(int(at.timestamp() * 1000).to_bytes(6) + bytes(10))}"


def conversation_id() -> str:
    """A new conversation id."""
    return f"conv_{_ulids.generate()}"


def message_id() -> str:
    """A new message id."""
    return f"msg_{_ulids.generate()}"


def file_id() -> str:
    """A new file id, as OpenAI's clients know them."""
    return f"file-{_ulids.generate()}"


def batch_id() -> str:
    """A new batch id."""
    return f"batch_{_ulids.generate()}"
