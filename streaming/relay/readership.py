"""Owns whether anybody still reads one running response, and how long that is waited for. Ends nothing itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from streaming.journal import Tail

from .watch import Watch

ABANDONED = "abandoned"

#: Asks who reads a response at other processes.
FollowersOf = Callable[[str], Awaitable[Mapping[str, int]]]


class Readership:
    """Calls ``on_gone`` when nobody reads any more and nobody came back for ``patience_s``; None waits for ever.

    ``generated`` tells how many tokens there are by now. The timer ABANDONED of ``watch`` is this one's.
    """

    def __init__(
        self,
        tail: Tail,
        watch: Watch,
        patience_s: float | None,
        *,
        generated: Callable[[], int],
        on_gone: Callable[[], None],
        followers_of: FollowersOf | None,
    ):
        self._tail = tail
        self._watch = watch
        self._whole_patience_s = self._patience_s = patience_s
        self._generated = generated
        self._on_gone = on_gone
        self._followers_of = followers_of
        self._readers = 0
        self._unattended_from: int | None = None
        self._asking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look at the readers there are, and from now on at every one that comes or goes."""
        self._tail.on_readers = self._changed
        self._changed()

    def close(self) -> None:
        """Look no more."""
        self._tail.on_readers = None
        self._stop_asking()

    @property
    def unattended_tokens(self) -> int:
        """How many tokens were made since the last reader went."""
        return 0 if self._unattended_from is None else self._generated() - self._unattended_from

    def leaving(self, grace_s: float) -> None:
        """A reader announced that it goes away: wait less for its return."""
        if self._patience_s is not None and self._patience_s > grace_s:
            self._patience_s = grace_s
            self._changed()

    def patience_is_over(self) -> None:
        """A reader who came to another process a moment ago counts all the same."""
        if self._followers_of is None:
            self._on_gone()
        elif self._asking is None:
            self._asking = asyncio.create_task(self._ask_elsewhere(self._followers_of(self._tail.response_id)))

    async def _ask_elsewhere(self, followers: Awaitable[Mapping[str, int]]) -> None:
        followed = await followers
        self._asking = None
        self._tail.followed(followed)
        if not self._tail.readers:
            self._on_gone()

    def _stop_asking(self) -> None:
        if self._asking:
            self._asking.cancel()
            self._asking = None

    def _changed(self) -> None:
        came = self._tail.readers > self._readers
        self._readers = self._tail.readers
        if came:
            self._patience_s = self._whole_patience_s
        if self._readers:
            self._watch.drop(ABANDONED)
            self._unattended_from = None
            self._stop_asking()
            return
        if self._unattended_from is None:
            self._unattended_from = self._generated()
        if self._patience_s == 0:
            self.patience_is_over()
        elif self._patience_s is not None:
            self._watch.start(ABANDONED, self._patience_s)
