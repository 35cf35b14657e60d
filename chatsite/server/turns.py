"""Owns whose turn it is where only so many may be at work at once; who waits goes in order. Knows no HTTP."""

from collections.abc import Callable, Hashable


class Turns:
    """``most`` at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._at_work: set[Hashable] = set()
        self._waiting: dict[Hashable, Callable[[], None]] = {}

    def enter(self, who: Hashable, begin: Callable[[], None]) -> None:
        """Call ``begin`` as soon as there is room, which may be at once."""
        self._waiting[who] = begin
        self._go_on()

    def leave(self, who: Hashable) -> None:
        """Done, or gone while waiting; does nothing for one who never came."""
        self._waiting.pop(who, None)
        self._at_work.discard(who)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._at_work) < self._most:
            who = next(iter(self._waiting))
            begin = self._waiting.pop(who)
            self._at_work.add(who)
            begin()
