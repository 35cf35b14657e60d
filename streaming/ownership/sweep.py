"""Owns finding dead owners and taking over what they left, while this process runs. Adoption itself is next door."""

import asyncio
import logging

from django.conf import settings
from django.db import DatabaseError

from streaming.protocol.liveness import Judge
from streaming.store import orphans, threads, watch

from .adoption import adopt_or_end
from .owner import Owner

logger = logging.getLogger(__name__)


async def sweep_own(owner: Owner) -> None:
    """Every SWEEP_S take up what is ours by its row and runs nowhere: stored although that seemed to fail."""
    suspects: set[str] = set()
    while True:
        await asyncio.sleep(settings.SWEEP_S)
        try:
            suspects = await take_up_strays(owner, suspects)
        except DatabaseError as error:
            logger.warning("could not look after our own responses: %s", error)


async def take_up_strays(owner: Owner, suspects: set[str]) -> set[str]:
    """Carry on, or end, those of ``suspects`` that still run nowhere. Returns what runs nowhere, to be suspected.

    Twice, because adoption makes a row ours a moment before its relay starts.
    """
    strays = [response for response in await threads.run(orphans.unended_of, owner.id) if owner.is_orphan(response)]
    for response in strays:
        if response.id in suspects:
            await adopt_or_end(owner, response)
    return {response.id for response in strays}


class Sweep:
    """Judges the other processes by their beats; every SWEEP_S takes over the responses of the dead ones."""

    def __init__(self, owner: Owner, judge: Judge):
        self._owner = owner
        self._judge = judge

    async def run(self) -> None:
        """Read beats every BEAT_S and sweep every SWEEP_S, for ever; an outage of the database kills nobody."""
        loop = asyncio.get_running_loop()
        sweep_at = loop.time() + settings.SWEEP_S
        while True:
            await asyncio.sleep(settings.BEAT_S)
            try:
                self._judge.read(await threads.run(watch.beats), loop.time())
                if loop.time() >= sweep_at:
                    sweep_at = loop.time() + settings.SWEEP_S
                    await self.sweep()
            except DatabaseError as error:
                self._judge.failed()
                logger.warning("could not look after other processes: %s", error)

    async def sweep(self) -> None:
        """Take over, or end, every response whose owner is dead or has released it."""
        for response in await threads.run(orphans.unended, self._owner.id):
            if self._owner.is_orphan(response):
                await adopt_or_end(self._owner, response)
