"""Owns which sockets are open in this process: how many each user may have, and sending them away. Says no words."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Protocol

from django.conf import settings


class TooManySockets(Exception):
    """The text says whose limit it is and how high."""


class Socket(Protocol):
    """An open one."""

    def send_away(self) -> None:
        """The process leaves: close, and say that another connection will do."""


class Sockets:
    """The open sockets of the process."""

    def __init__(self, most: int, most_per_user: int):
        self._most = most
        self._most_per_user = most_per_user
        self._open: set[Socket] = set()
        self._per_user: Counter[int] = Counter()
        self.leaving = False

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def place(self, user_id: int, socket: Socket) -> Iterator[None]:
        """Count a socket as long as it is open. Raises TooManySockets."""
        if self._per_user[user_id] >= self._most_per_user:
            raise TooManySockets(f"at most {self._most_per_user} pages of one user are told of changes")
        if len(self._open) >= self._most:
            raise TooManySockets("too many pages are told of changes; later")
        self._open.add(socket)
        self._per_user[user_id] += 1
        try:
            yield
        finally:
            self._open.discard(socket)
            self._per_user[user_id] -= 1
            if not self._per_user[user_id]:
                del self._per_user[user_id]

    def send_away(self) -> None:
        """The process leaves; who comes now is sent away too."""
        self.leaving = True
        for socket in list(self._open):
            socket.send_away()


@cache
def current() -> Sockets:
    """Those of this process."""
    return Sockets(settings.MAX_SOCKETS, settings.MAX_SOCKETS_PER_USER)
