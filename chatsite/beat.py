"""Owns when beat sends while somebody sets its clock. What is sent, and how often, stands in chatsite.celery."""

from datetime import UTC, datetime
from typing import Any

from celery.beat import PersistentScheduler


class Scheduler(PersistentScheduler):  # type: ignore[misc]
    """Celery's waits for the time of day at which it knows a task to be due.

    So a clock that is set back would keep it, and with it every task, silent for as long as that was; also over a
    restart, for it keeps in a file when it has sent what.
    """

    _latest = datetime.max.replace(tzinfo=UTC)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; returns how long to sleep, in seconds."""
        now = self.app.now()
        if now < self._latest:
            self._begin_anew(now)
        self._latest = now
        due_s: float = super().tick(*args, **kwargs)
        return due_s

    def _begin_anew(self, now: datetime) -> None:
        """What was sent in a time that has not come was sent just now."""
        for entry in self.schedule.values():
            entry.last_run_at = min(entry.last_run_at, now)
        self._heap = None
