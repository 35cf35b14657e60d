"""Owns whether an engine gets requests, from how those before it went. Asks no engine; times come in."""

import random

#: So many failures in a row, with no output between them, and nobody is sent there for a while.
FAILURES_MAX = 3
EJECTED_S = 1.0
EJECTED_MAX_S = 30.0
SPREAD = 0.2
WHOLE_AGAIN = 64


class Health:
    """One engine's. After an ejection one request tries it; each success doubles how many may be there at a time."""

    def __init__(self) -> None:
        self.ejected_until = float("-inf")
        self._failures = 0
        self._ejections = 0
        self._limit: int | None = None

    def room(self, slots: int, now: float) -> int:
        """How many of the slots may be in use."""
        if now < self.ejected_until:
            return 0
        return slots if self._limit is None else min(slots, self._limit)

    def is_ejected(self, now: float) -> bool:
        return now < self.ejected_until

    def succeeded(self) -> None:
        """A request got its first output."""
        self._failures = 0
        self.ejected_until = float("-inf")
        if self._limit is not None:
            self._limit *= 2
            if self._limit >= WHOLE_AGAIN:
                self._limit, self._ejections = None, 0

    def failed(self, now: float, at_once: bool = False) -> bool:
        """A request failed by the engine's fault; ``at_once`` where that leaves no doubt. Whether it is ejected now."""
        self._failures += 1
        if now < self.ejected_until or not (at_once or self._failures >= FAILURES_MAX):
            return False
        for_s = min(EJECTED_MAX_S, EJECTED_S * 2.0**self._ejections)
        self._ejections += 1
        self._failures, self._limit = 0, 1
        # Several processes, and engines that died together, do not come back at one moment.
        self.ejected_until = now + for_s * random.uniform(1 - SPREAD, 1 + SPREAD)
        return True
