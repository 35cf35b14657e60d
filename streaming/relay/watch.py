"""Owns the timers of one running response, as one lazily moved alarm. Does not know what an expiry leads to."""

import asyncio
from collections.abc import Callable

from .job import Limits


class Watch:
    """Calls ``on_expiry(name)`` once when a running timer expires; times are the event loop's seconds.

    Moving a deadline forward costs an assignment: the alarm looks again when it rings.
    """

    def __init__(self, on_expiry: Callable[[str], None]):
        self._loop = asyncio.get_running_loop()
        self._on_expiry = on_expiry
        self._deadlines: dict[str, float] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def start(self, name: str, seconds: float) -> None:
        """Start a timer, or start it over."""
        self._deadlines[name] = self._loop.time() + seconds
        if self._alarm is None or self._alarm_at > self._deadlines[name]:
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
            self._alarm = None
        if self._deadlines:
            # Remembered here: a handle for what is due within uvloop's millisecond cannot be asked.
            self._alarm_at = min(self._deadlines.values())
            self._alarm = self._loop.call_at(self._alarm_at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._loop.time()
        expired = [name for name, deadline in self._deadlines.items() if deadline <= now]
        for name in expired:
            self.drop(name)
            self._on_expiry(name)
        self._set_alarm()


#: What an engine is waited for: each of these timers ends where another begins.
PHASES = ("queue", "ttft", "idle")


class Phases:
    """Of the timers of ``watch`` those of the engine, of which at most one runs."""

    def __init__(self, watch: Watch, limits: Limits):
        self._watch = watch
        self._limits = limits

    def wait_for(self, phase: str | None) -> None:
        """What is waited for from now on, and nothing else of the engine."""
        for name in PHASES:
            self._watch.drop(name)
        if phase:
            self._watch.start(phase, getattr(self._limits, f"{phase}_s"))

    def output(self, now: float) -> None:
        """Another output came: the next is waited for anew."""
        self._watch.push("idle", now + self._limits.idle_s)
