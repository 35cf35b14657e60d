"""Owns telling the open pages of users what changed: those of this process at once, others over the channel layer."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from django.conf import settings

from .change import CONVERSATIONS, Change
from .layer import UNHEARD, join, layer, leave, send_to_group
from .telling import group_of, message_of

logger = logging.getLogger(__name__)

GATHER_S = 0.01
RETRY_S = 1.0
#: A Valkey that was restarted has forgotten who wants to hear, and nobody is told of that.
JOIN_AGAIN_S = 60.0
#: Users with something to tell while Valkey hangs; more are not remembered.
MOST_USERS = 10_000
MOST_CHANGES = 50

OnChange = Callable[[Change], None]


class Changes:
    """Of one web process. A change may be lost: who hears of it looks at rows, and looks now and then anyway."""

    def __init__(self, process_id: str):
        self._process_id = process_id
        self._channel = f"pages.{process_id}"
        #: Told of all that pages of this process are told.
        self.on_told: Callable[[int, Change], None] | None = None
        self._followers: defaultdict[int, set[OnChange]] = defaultdict(set)
        self._pending: dict[int, list[Change]] = {}
        self._joined: set[int] = set()
        self._woken = asyncio.Event()
        self._is_heard = True
        self._has_missed = False

    @property
    def work(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What has to run beside; nothing without Valkey, where no other process can hear."""
        return [self.send, self.hear, self.join_again] if settings.VALKEY_URL else []

    @property
    def followed(self) -> list[int]:
        """The users that have followers here."""
        return list(self._followers)

    def follow(self, user_id: int, on_change: OnChange) -> None:
        """From now on ``on_change`` is called with what changes of the user. It must not raise."""
        self._followers[user_id].add(on_change)
        self._woken.set()

    def unfollow(self, user_id: int, on_change: OnChange) -> None:
        """The opposite of ``follow``; may be called again."""
        self._followers[user_id].discard(on_change)
        if not self._followers[user_id]:
            del self._followers[user_id]
        self._woken.set()

    def announce(self, user_id: int | None, change: Change) -> None:
        """Tell every open page of the user, here and elsewhere. Returns at once; call it after the commit."""
        if user_id is None:
            return
        self.tell_here(user_id, change)
        if not settings.VALKEY_URL:
            return
        if user_id not in self._pending and len(self._pending) >= MOST_USERS:
            return
        pending = self._pending.setdefault(user_id, [])
        if change not in pending:
            pending.append(change if len(pending) < MOST_CHANGES else Change(CONVERSATIONS))
            del pending[MOST_CHANGES + 1 :]
        self._woken.set()

    def tell_here(self, user_id: int, change: Change) -> None:
        """Tell the pages of this process only."""
        if self.on_told:
            self.on_told(user_id, change)
        for on_change in list(self._followers.get(user_id, ())):
            on_change(change)

    async def send(self) -> None:
        """Send what was announced, and keep the groups, for ever."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._keep_groups()
                self._say_what_was_missed()
                while self._pending:
                    user_id, changes = self._pending.popitem()
                    await send_to_group(group_of(user_id), message_of(user_id, changes, self._process_id))
                self._heard(None)
            except UNHEARD as error:
                self._heard(error)
                await asyncio.sleep(RETRY_S)
                self._woken.set()
            await asyncio.sleep(GATHER_S)

    async def _keep_groups(self) -> None:
        wanted = set(self._followers)
        for user_id in wanted - self._joined:
            await join(group_of(user_id), self._channel)
            self._joined.add(user_id)
        for user_id in self._joined - wanted:
            await leave(group_of(user_id), self._channel)
            self._joined.discard(user_id)

    async def join_again(self) -> None:
        """Join every group again now and then, for ever."""
        while True:
            await asyncio.sleep(JOIN_AGAIN_S)
            self._joined.clear()
            self._woken.set()

    async def hear(self) -> None:
        """Hear what other processes announce, for ever."""
        while True:
            try:
                self._take(await layer().receive(self._channel))
            except UNHEARD:
                await asyncio.sleep(RETRY_S)
                # It has forgotten the groups too, if it was restarted.
                self._has_missed = True
                self._joined.clear()
                self._woken.set()
            except Exception:
                # Another version's, or nobody's of ours: the next must be heard all the same.
                logger.exception("a change makes no sense")
                await asyncio.sleep(GATHER_S)

    def _take(self, message: dict[str, Any]) -> None:
        if message["sender"] == self._process_id:
            return
        for change in message["changes"]:
            self.tell_here(message["user"], Change.from_message(change))

    def _say_what_was_missed(self) -> None:
        """Valkey is back: nobody knows what it would have carried."""
        if self._has_missed:
            self._has_missed = False
            for user_id in self.followed:
                self.tell_here(user_id, Change(CONVERSATIONS))

    def _heard(self, error: Exception | None) -> None:
        if error and self._is_heard:
            logger.warning("other processes are not told of changes, their pages look now and then: %s", error)
        self._is_heard = error is None
