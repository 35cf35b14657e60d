"""Owns asking engines by what rows say whose abort is unproven and whom no task of ours asks: too many, or others'."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from streaming.engine.base import Engine, GenerateRequest, Sampling
from streaming.engine.registry import engine_for
from streaming.models import Response
from streaming.relay.abort import is_proven
from streaming.store import attempts, threads

from .aborts import GIVE_UP_S
from .owner import Owner

logger = logging.getLogger(__name__)

EVERY_S = 5.0
#: Rows in memory, and engines asked, at a time.
PAGE = 64
MS = timedelta(milliseconds=1)


async def prove_by_rows(owner: Owner) -> None:
    """Look every EVERY_S, for ever."""
    while True:
        await asyncio.sleep(EVERY_S)
        try:
            await ask_again(owner)
        except DatabaseError as error:
            logger.warning("could not look which aborts are not proven: %s", error)


async def ask_again(owner: Owner) -> None:
    """Ask once for each unproven abort of the last GIVE_UP_S that nobody else asks for: ours, and of the dead."""
    since, after, left = timezone.now() - timedelta(seconds=GIVE_UP_S), None, 0
    while page := await threads.run(attempts.left_unproven, since, after, PAGE):
        after = _place(page[-1])
        engines = {row.pk: engine_for(row) for row in await owner.pool.rows()}
        asked = [_ask(engines, row, one) for row in page if _is_ours(owner, row) for one in _unasked(owner, row)]
        proven = await asyncio.gather(*asked)
        left += len(proven) - sum(proven)
        if len(page) < PAGE:
            break
    owner.aborts.in_rows = left


def _place(row: Response) -> tuple[datetime, str]:
    assert row.unproven_since
    return row.unproven_since, row.id


def _is_ours(owner: Owner, row: Response) -> bool:
    return row.owner == owner.id or owner.company is None or owner.company.judge.is_dead(row.owner)


def _unasked(owner: Owner, row: Response) -> list[Mapping[str, Any]]:
    names = [name for name in attempts.unproven(row.attempts) if not owner.aborts.asks(name)]
    return [one for one in row.attempts if one["request_id"] in names]


async def _ask(engines: Mapping[int, Engine], row: Response, attempt: Mapping[str, Any]) -> bool:
    """Whether it is proven now. An engine that is gone cannot be asked."""
    engine = engines.get(attempt["engine_id"])
    if engine is None or not engine.can_prove_aborts:
        return False
    request = _request_of(row, attempt["request_id"])
    if not await is_proven(engine.abort_again(request), request.request_id, settings.STOP_PROOF_S):
        return False
    proven_ms = max(0.0, (timezone.now() - _place(row)[0]) / MS)
    logger.info("the abort of %s is proven after %.0f ms", request.request_id, proven_ms)
    return await threads.write(attempts.note_abort_proven, row.id, request.request_id, round(proven_ms, 2))


def _request_of(row: Response, request_id: str) -> GenerateRequest:
    """As much of it as tells an engine which one is meant."""
    seed = row.request.get("sampling", {}).get("seed")
    return GenerateRequest(request_id, (), (), Sampling(max_tokens=1, seed=seed))
