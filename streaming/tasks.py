"""Owns the background tasks, each idempotent. None owns a relay: what needs text calls our own API."""

import logging

from celery import shared_task
from django.core.cache import cache

from streaming.models import Response, WebProcess
from streaming.protocol.end_state import OWNER_LOST, decide
from streaming.store import orphans

logger = logging.getLogger(__name__)

#: After so many ticks without a change of its beat counter a process is dead and nobody has adopted from it.
DEAD_TICKS = 4
CACHE_S = 600
LOST = decide(None, OWNER_LOST, message="The server was lost while it answered.")


@shared_task(name="streaming.end_orphans")
def end_orphans() -> int:
    """One tick: end the responses of processes whose counter stood still for DEAD_TICKS ticks. Returns how many."""
    beats = {process.id: process.beat for process in WebProcess.objects.all()}
    owned = list(Response.objects.filter(end_state__isnull=True).exclude(owner=""))
    dead = {owner for owner in {response.owner for response in owned} if _is_dead(owner, beats.get(owner or ""))}
    ended = sum(orphans.end_orphan(response, LOST) for response in owned if response.owner in dead)
    if ended:
        logger.warning("ended %d responses that nobody carried on", ended)
    return ended


def _is_dead(owner: str | None, beat: int | None) -> bool:
    """Counts unchanged ticks of one owner in the cache; no clock is asked."""
    key = f"beat:{owner}"
    seen_beat, ticks = cache.get(key, (None, 0))
    ticks = ticks + 1 if seen_beat == beat else 1
    cache.set(key, (beat, ticks), CACHE_S)
    return ticks > DEAD_TICKS
