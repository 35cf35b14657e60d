"""Owns the task that ends what nobody adopted: judges by counters and ticks. Carries nothing on."""

import logging

from django.core.cache import cache

from streaming.models import Response, WebProcess
from streaming.store import orphans
from streaming.store.trouble import UNAVAILABLE

from .ticks import tick

logger = logging.getLogger(__name__)

#: After so many ticks without a change of its beat counter a process is dead and nobody has adopted from it.
DEAD_TICKS = 4
CACHE_S = 600


@tick("streaming.end_orphans", every_s=5)
def end_orphans() -> int:
    """One tick: end the responses of processes whose counter stood still for DEAD_TICKS ticks. Returns how many."""
    beats = {process.id: process.beat for process in WebProcess.objects.all()}
    unended = orphans.unended()
    judged = {_owner(response) for response in unended}
    dead = {owner for owner in judged if _stands_still(owner, beats.get(owner))}
    ended = sum(_end(response) for response in unended if _owner(response) in dead)
    if ended:
        logger.warning("ended %d responses that nobody carried on", ended)
    return ended


def _end(response: Response) -> bool:
    """One that cannot be ended keeps no other from it."""
    try:
        return orphans.end_orphan(response, orphans.LOST)
    except UNAVAILABLE:
        raise
    except Exception:
        logger.exception("%s could not be ended", response.id)
        return False


def _owner(response: Response) -> str:
    """Whose counter says whether the response lives; one that was released is judged by itself."""
    return response.owner or response.id


def _stands_still(owner: str, beat: int | None) -> bool:
    """Counts unchanged ticks of one owner in the cache; no clock is asked."""
    key = f"beat:{owner}"
    seen_beat, ticks = cache.get(key, (None, 0))
    ticks = ticks + 1 if seen_beat == beat else 1
    cache.set(key, (beat, ticks), CACHE_S)
    return ticks > DEAD_TICKS
