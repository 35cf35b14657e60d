"""Owns what becomes of the answers of an engine that is being drained. Takes none out of service itself."""

import asyncio
import logging
from itertools import islice

from django.conf import settings
from django.db import DatabaseError

from streaming.pool.pool import REFRESH_S

from .owner import Owner

logger = logging.getLogger(__name__)


async def look_after_drained(owner: Owner) -> None:
    """While something runs, see which engines are being drained, and move answers away that take too long."""
    while True:
        await asyncio.sleep(REFRESH_S)
        try:
            if owner.running:
                await owner.pool.refresh()
                move_away(owner, settings.ENGINE_DRAIN_S)
        except DatabaseError as error:
            logger.warning("could not look which engines are being drained: %s", error)


def move_away(owner: Owner, after_s: float) -> int:
    """Have the answers carried on elsewhere whose engines are drained for so long, as many as others have room for.

    One that no other engine can carry on runs to its end where it is. Returns how many move.
    """
    moved = 0
    for row in owner.pool.drained_for(after_s):
        leaving = (relay for relay in owner.relays if relay.asking.leave(row.pk))
        left = sum(1 for _ in islice(leaving, owner.pool.room(row.model)))
        if left:
            logger.info("%d answers leave %s, which is being drained", left, row.name)
        moved += left
    return moved
