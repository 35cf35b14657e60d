"""Owns doorbells: lossy wake-ups between web processes over the channel layer. What a ring means is decided above."""

import asyncio
import logging
from collections.abc import Callable

from .layer import UNHEARD, layer, send

logger = logging.getLogger(__name__)

#: What is rung within this time goes to a process as one message: under load far less than one a token.
GATHER_S = 0.01
RETRY_S = 1.0

#: Called with the ids of responses to look at, and of those whose reader says that it goes away.
OnRing = Callable[[list[str], list[str]], None]


class Doorbell:
    """Rings at other processes, and hears their rings. Any may be lost: rows are looked at all the same, only later."""

    def __init__(self, process_id: str, on_ring: OnRing):
        self._process_id = process_id
        self._on_ring = on_ring
        self._pending: dict[str, dict[str, bool]] = {}
        self._woken = asyncio.Event()
        self._is_heard = True

    def ring(self, process_id: str, response_id: str, *, leaving: bool = False) -> None:
        """Tell a process to look at a response, soon; what is rung again meanwhile costs nothing."""
        responses = self._pending.setdefault(process_id, {})
        responses[response_id] = leaving or responses.get(response_id, False)
        self._woken.set()

    async def send(self) -> None:
        """Send what was rung, for ever."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            pending, self._pending = self._pending, {}
            for process_id, responses in pending.items():
                await self._tell(process_id, responses)
            await asyncio.sleep(GATHER_S)

    async def _tell(self, process_id: str, responses: dict[str, bool]) -> None:
        message = {"type": "ring", "look": list(responses), "leaving": [r for r in responses if responses[r]]}
        try:
            await send(_channel(process_id), message)
            self._is_heard = True
        except UNHEARD as error:
            if self._is_heard:
                logger.warning("doorbells are not heard, others look at the rows every so often: %s", error)
            self._is_heard = False

    async def hear(self) -> None:
        """Hear what others ring, for ever."""
        while True:
            try:
                message = await layer().receive(_channel(self._process_id))
                self._on_ring(message["look"], message["leaving"])
            except UNHEARD:
                await asyncio.sleep(RETRY_S)
            except Exception:
                # Another version's, or nobody's of ours: the next must be heard all the same.
                logger.exception("a doorbell makes no sense")
                await asyncio.sleep(GATHER_S)


def _channel(process_id: str) -> str:
    return f"web.{process_id}"
