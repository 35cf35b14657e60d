"""Owns what runs now, for staff: what rows say, and what this process knows better. Watching keeps nothing alive."""

import asyncio
from functools import cache
from typing import Any

from streaming.store import live, threads

from .owner import Owner, current

#: Who watches shares what was looked up within this time.
FRESH_S = 0.8


class Overview:
    """What runs now; one look for all that watch in this process."""

    def __init__(self, owner: Owner):
        self._owner = owner
        self._lock = asyncio.Lock()
        self._looked_at = float("-inf")
        self._last: dict[str, Any] = {}

    async def now(self) -> dict[str, Any]:
        """As ``store.live.running``; readers and tokens of what runs here are those of this moment."""
        async with self._lock:
            clock = asyncio.get_running_loop().time
            if clock() - self._looked_at > FRESH_S:
                self._last = await threads.run(live.running)
                self._looked_at = clock()
                for row in self._last["rows"]:
                    self._know_better(row)
            return self._last

    def _know_better(self, row: dict[str, Any]) -> None:
        if relay := self._owner.relay(row["id"]):
            row["tokens"] = max(row["tokens"], relay.generated_tokens)
            row["readers"] = relay.tail.readers


@cache
def overview() -> Overview:
    """The process's."""
    return Overview(current())
