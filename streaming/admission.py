"""Owns the caps on running streams, per process and per user. Does not know engines or queues."""

from collections import Counter


class TooMany(Exception):
    """A cap is reached. ``whose`` is ``user`` or ``process``."""

    def __init__(self, whose: str, limit: int):
        super().__init__(f"{limit} responses are running already")
        self.whose = whose


class Admission:
    """Counts what runs in this process; ``enter`` and ``leave`` come in pairs."""

    def __init__(self, per_process: int, per_user: int):
        self._per_process = per_process
        self._per_user = per_user
        self._of_user: Counter[int | None] = Counter()
        self._running = 0

    def check(self, user_id: int | None) -> None:
        """Raises TooMany when one more would pass a cap."""
        if self._of_user[user_id] >= self._per_user:
            raise TooMany("user", self._per_user)
        if self._running >= self._per_process:
            raise TooMany("process", self._per_process)

    def enter(self, user_id: int | None) -> None:
        """A response of the user runs."""
        self._of_user[user_id] += 1
        self._running += 1

    def leave(self, user_id: int | None) -> None:
        """It no longer does."""
        self._running -= 1
        self._of_user[user_id] -= 1
        if not self._of_user[user_id]:
            del self._of_user[user_id]
