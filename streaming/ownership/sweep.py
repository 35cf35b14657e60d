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


class Sweep:
    """Judges the other processes by their beats; every SWEEP_S takes over the responses of the dead ones."""

    def __init__(self, owner: Owner, judge: Judge):
        self._owner = owner
        self._judge = judge
        owner.has_company(judge)

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
