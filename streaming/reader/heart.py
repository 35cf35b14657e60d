"""Owns when a connection has been silent for so long that a heartbeat is due. Sends nothing."""

import asyncio
import random
from collections.abc import Callable


class Heart:
    """Calls ``on_due`` when nothing was sent for half of ``every_s``, or a little later, and ``is_due`` until it is.

    One alarm per reader looks twice in a heartbeat's time whether one is due; jitter keeps readers apart.
    """

    def __init__(self, every_s: float, on_due: Callable[[], None]):
        self.is_due = False
        self._every_s = every_s
        self._on_due = on_due
        self._sent_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Count from now on."""
        self.sent(asyncio.get_running_loop().time())
        self._set_alarm()

    def sent(self, now: float) -> None:
        """Something was sent."""
        self._sent_at = now
        self.is_due = False

    def stop(self) -> None:
        """The connection is gone."""
        if self._alarm:
            self._alarm.cancel()

    def _set_alarm(self) -> None:
        pause_s = self._every_s * random.uniform(0.4, 0.5)
        self._alarm = asyncio.get_running_loop().call_later(pause_s, self._ring)

    def _ring(self) -> None:
        if asyncio.get_running_loop().time() - self._sent_at >= self._every_s / 2:
            self.is_due = True
            self._on_due()
        self._set_alarm()
