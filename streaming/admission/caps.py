"""Owns the caps on running streams and on open readers of a process. Does not know engines or queues."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class TooMany(Exception):
    """A cap is reached. ``whose`` is ``user``, ``process`` or ``response``."""

    def __init__(self, whose: str, message: str):
        super().__init__(message)
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
            raise TooMany("user", f"{self._per_user} responses are running already")
        if self._running >= self._per_process:
            raise TooMany("process", f"{self._per_process} responses are running already")

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


class ReaderCaps:
    """Counts the open readers of this process, whoever reads, and caps those that come back or come as well.

    The first reader of a new response is counted and never refused: it has passed Admission.
    """

    def __init__(self, per_response: int, per_user: int):
        self._limits = {"response": per_response, "user": per_user}
        self._open: Counter[tuple[str, str | int]] = Counter()

    def check(self, user_id: int, response_id: str) -> None:
        """Raises TooMany when one more reader would pass a cap."""
        for whose, of in (("response", response_id), ("user", user_id)):
            seen, limit = self._open[whose, of], self._limits[whose]
            if seen >= limit:
                raise TooMany(whose, f"{seen} readers of this {whose} are open already (limit {limit})")

    @property
    def open(self) -> int:
        """How many readers there are."""
        return sum(seen for (whose, _), seen in self._open.items() if whose == "response")

    @contextmanager
    def place(self, user_id: int, response_id: str) -> Iterator[None]:
        """Around the life of a reader."""
        counted: tuple[tuple[str, str | int], ...] = (("response", response_id), ("user", user_id))
        self._open.update(counted)
        try:
            yield
        finally:
            for one in counted:
                self._open[one] -= 1
                if not self._open[one]:
                    del self._open[one]
