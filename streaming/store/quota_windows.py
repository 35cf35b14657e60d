"""Owns the arithmetic of quotas: windows of time, what fits, what is given back. Knows no table and no clock.

Counts stand under the start of their window. So a clock that jumps and comes back finds what it had counted, and one
that stays away opens or closes no more than the windows that it passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

MINUTE, DAY, MONTH = "minute", "day", "month"
#: Windows of a kind that are remembered: those nearest to now.
KEPT_WINDOWS = 4
#: No window ends when an answer does: what who has too many at a time is told to wait.
STREAMS_RETRY_S = 5.0

#: Window by window: [requests, tokens] by its start.
Windows = dict[str, dict[str, list[int]]]


@dataclass(frozen=True, slots=True)
class Limits:
    """None is no limit."""

    concurrent_streams: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None

    @property
    def is_any(self) -> bool:
        """Whether anything is limited."""
        return any(getattr(self, name) is not None for name in self.__slots__)

    @property
    def of_tokens(self) -> list[tuple[str, str, int]]:
        """Name, window and limit of those that count tokens."""
        named = [("tokens_per_minute", MINUTE), ("tokens_per_day", DAY), ("tokens_per_month", MONTH)]
        return [(name, kind, limit) for name, kind in named if (limit := getattr(self, name)) is not None]


@dataclass(slots=True)
class Used:
    """What is used of a quota, reserved tokens included."""

    streams: int = 0
    windows: Windows = field(default_factory=dict)

    def of(self, kind: str, now_s: float) -> list[int]:
        """[requests, tokens] of the window that now is in; not to be changed."""
        return self.windows.get(kind, {}).get(str(window(kind, now_s)[0]), [0, 0])

    def take(self, now_s: float, tokens: int) -> None:
        """One more stream, with so many tokens."""
        self.streams += 1
        for kind in (MINUTE, DAY, MONTH):
            start_s = window(kind, now_s)[0]
            of_kind = self.windows.setdefault(kind, {})
            requests, before = of_kind.get(str(start_s), [0, 0])
            of_kind[str(start_s)] = [requests + 1, before + tokens]
            for far in sorted(of_kind, key=lambda key: abs(int(key) - start_s))[KEPT_WINDOWS:]:
                del of_kind[far]

    def give_back(self, at_s: float, requests: int, tokens: int) -> None:
        """A stream that began at ``at_s`` is over; windows that are forgotten get nothing."""
        self.streams = max(0, self.streams - 1)
        for kind, of_kind in self.windows.items():
            start = str(window(kind, at_s)[0])
            if start in of_kind:
                had_requests, had_tokens = of_kind[start]
                of_kind[start] = [max(0, had_requests - requests), max(0, had_tokens - tokens)]


@dataclass(frozen=True, slots=True)
class Full:
    """A limit that a request would pass. ``retry_after_s`` is None where it alone is more than the limit."""

    limit_name: str
    limit: int
    used: int
    wanted: int
    retry_after_s: float | None

    @property
    def message(self) -> str:
        """For the caller."""
        head = f"{self.limit_name}: limit {self.limit}, in use {self.used}, this request needs {self.wanted}"
        return head if self.retry_after_s is not None else f"{head}, which is more than the limit"


def window(kind: str, at_s: float) -> tuple[int, int]:
    """Start and end, in seconds since 1970: a minute of the clock, a day or a month of UTC."""
    if kind == MINUTE:
        start_s = int(at_s // 60) * 60
        return start_s, start_s + 60
    day = datetime.fromtimestamp(at_s, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if kind == DAY:
        return int(day.timestamp()), int((day + timedelta(days=1)).timestamp())
    first = day.replace(day=1)
    return int(first.timestamp()), int((first + timedelta(days=32)).replace(day=1).timestamp())


def fitting(limits: Limits, used: Used, now_s: float, prompt_tokens: int, most: int, least: int) -> int | Full:
    """How many tokens the answer may have, between ``least`` and ``most``, or what is in the way."""
    if limits.concurrent_streams is not None and used.streams >= limits.concurrent_streams:
        return Full("concurrent_streams", limits.concurrent_streams, used.streams, 1, STREAMS_RETRY_S)
    if limits.requests_per_minute is not None:
        requests = used.of(MINUTE, now_s)[0]
        if requests >= limits.requests_per_minute:
            left_s = window(MINUTE, now_s)[1] - now_s
            return Full("requests_per_minute", limits.requests_per_minute, requests, 1, left_s)
    answer = most
    for name, kind, limit in reversed(limits.of_tokens):
        tokens = used.of(kind, now_s)[1]
        left = limit - tokens - prompt_tokens
        if left < least:
            needs = prompt_tokens + least
            return Full(name, limit, tokens, needs, None if needs > limit else window(kind, now_s)[1] - now_s)
        answer = min(answer, left)
    return answer


def left(limits: Limits, used: Used, now_s: float) -> dict[str, dict[str, Any]]:
    """What a caller is told of its requests and tokens: limit, remaining, and when the window ends (s since 1970).

    Of several limits of tokens the one that leaves the fewest.
    """
    told: dict[str, dict[str, Any]] = {}
    if limits.requests_per_minute is not None:
        told["requests"] = _told(limits.requests_per_minute, used.of(MINUTE, now_s)[0], MINUTE, now_s)
    of_tokens = [_told(limit, used.of(kind, now_s)[1], kind, now_s) for _, kind, limit in limits.of_tokens]
    if of_tokens:
        told["tokens"] = min(of_tokens, key=lambda one: int(one["remaining"]))
    return told


def _told(limit: int, used: int, kind: str, now_s: float) -> dict[str, Any]:
    return {"limit": limit, "remaining": max(0, limit - used), "reset_s": window(kind, now_s)[1], "now_s": int(now_s)}


def tightest(told: list[Mapping[str, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """Of what several quotas leave, the least."""
    least: dict[str, Mapping[str, Any]] = {}
    for one in told:
        for name, figures in one.items():
            if name not in least or figures["remaining"] < least[name]["remaining"]:
                least[name] = figures
    return least
