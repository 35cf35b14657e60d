"""Owns what runs in a process for as long as it serves, and beginning it anew where a fault of ours ends it."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

logger = logging.getLogger(__name__)

#: So that a fault that comes each time fills no log.
AGAIN_S = 1.0

Work = Callable[[], Coroutine[Any, Any, None]]


class Beside:
    """Each work runs for ever; what it expects to go wrong, it bears itself."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, work: Work) -> None:
        """From now on, in a fresh context."""
        again = _again_and_again(work)
        self._tasks.append(asyncio.get_running_loop().create_task(again, context=contextvars.Context()))

    def close(self) -> None:
        """No longer."""
        for task in self._tasks:
            task.cancel()


async def _again_and_again(work: Work) -> None:
    """Without this an error that nobody thought of would end a sweep, a beat or a guard, and nobody would see that."""
    while True:
        try:
            await work()
        except Exception:
            logger.exception("%s broke off and begins anew", _name(work))
        await asyncio.sleep(AGAIN_S)


def _name(work: Work) -> str:
    function = work.func if isinstance(work, partial) else work
    return getattr(function, "__qualname__", repr(function))
