"""Owns telling an engine to stop what a former owner asked of it, who may only be paused. Takes nothing over."""

from contextlib import suppress

from streaming.engine.base import EngineError
from streaming.engine.registry import engine_for
from streaming.models import Response
from streaming.store.attempts import RELAY_LOST

from .owner import Owner


async def silence(owner: Owner, response: Response) -> None:
    """Of a response that was just taken over or ended: abort what ran, by its name where the engine knows names."""
    lost = response.attempts[-1] if response.attempts else None
    if lost is None or lost["ended"] != RELAY_LOST:
        return
    for row in await owner.pool.rows():
        if row.pk == lost["engine_id"]:
            with suppress(EngineError):
                await engine_for(row).abort(lost["request_id"])
