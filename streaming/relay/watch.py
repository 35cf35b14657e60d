"""Owns the timers of one running response, as one lazily moved alarm. Does not know what an expiry leads to."""

import asyncio
from collections.abc import Callable


class Watch:
    """Calls ``on_expiry(name)`` once when a running timer expires; times are the event loop's seconds.

    Moving a deadline forward costs an assignment: the alarm looks again when it rings.
    """

    def __init__(self, on_expiry: Callable[[str], None]):
        self._loop = asyncio.get_running_loop()
        self._on_expiry = on_expiry
        self._deadlines: dict[str, float] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def start(self, name: str, seconds: float) -> None:
        """Start a timer, or start it over."""
        self._deadlines[name] = self._loop.time() + seconds
        if self._alarm is None or self._alarm.when() > self._deadlines[name]:
            self._set_alarm()

    def push(self, name: str, deadline: float) -> None:
        """Move a running timer's deadline forward: the cheap way, once per output."""
        self._deadlines[name] = deadline

    def drop(self, name: str) -> None:
        """Take a timer away."""
        self._deadlines.pop(name, None)

    def close(self) -> None:
        """Take all timers away."""
        self._deadlines.clear()
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self) -> None:
        if self._alarm:
            self._alarm.cancel()
        first = min(self._deadlines.values(), default=None)
        self._alarm = self._loop.call_at(first, self._ring) if first is not None else None

    def _ring(self) -> None:
        self._alarm = None
        now = self._loop.time()
        expired = [name for name, deadline in self._deadlines.items() if deadline <= now]
        for name in expired:
            self.drop(name)
            self._on_expiry(name)
        self._set_alarm()
