"""Owns one look at all the books: reads engines' counters, has them compared, keeps what was found. Mends nothing."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from streaming.engine.base import Counters, EngineError
from streaming.engine.registry import MAKE
from streaming.models import Engine, EngineReading, LedgerCheck
from streaming.store import engines, ledger

logger = logging.getLogger(__name__)

SKEW = timedelta(seconds=2)
READ_TIMEOUT_S = 10.0
#: Beside the timers: storing, proofs, an adoption.
SLACK_S = 300.0


def longest_life() -> timedelta:
    """The age that no response without an end can have."""
    timers_s = settings.TOTAL_TIMEOUT_S + settings.QUEUE_TIMEOUT_S + settings.TTFT_TIMEOUT_S
    return timedelta(seconds=timers_s + SLACK_S)


def reconcile(since: datetime | None = None, skew: timedelta = SKEW) -> list[LedgerCheck]:
    """Compare everything, each engine since its last reading or since its first after ``since``; keep and log it.

    An engine's first reading has nothing to be compared with. For code without an event loop.
    """
    rows = engines.enabled()
    readings = asyncio.run(_read_all(rows))
    checks = [
        check for row, reading in zip(rows, readings, strict=True) if (check := _check(row, reading, since, skew))
    ]
    checks.append(ledger.check_unended(longest_life()))
    checks += ledger.check_rollups(timezone.now())
    checks += ledger.check_quotas()
    ledger.keep(checks)
    for check in checks:
        if check.drift:
            logger.error("the books drift by %d: %s %s: %s", check.drift, check.kind, check.subject, check.message)
    return checks


def _check(row: Engine, reading: EngineReading | None, since: datetime | None, skew: timedelta) -> LedgerCheck | None:
    if reading is None:
        return None
    earlier = ledger.reading_before(row.pk, since)
    reading.save()
    return ledger.check_engine(earlier, reading, skew) if earlier else None


async def _read_all(rows: Sequence[Engine]) -> list[EngineReading | None]:
    return list(await asyncio.gather(*(_read(row) for row in rows)))


async def _read(row: Engine) -> EngineReading | None:
    wire = MAKE[row.kind](row)
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            counters: Counters | None = await wire.counters()
    except (EngineError, TimeoutError) as error:
        logger.warning("the counters of engine %s cannot be read: %s", row.name, error)
        return None
    finally:
        await wire.aclose()
    if counters is None:
        return None
    return EngineReading(
        engine=row,
        generated_tokens=counters.generated_tokens,
        prompt_tokens=counters.prompt_tokens,
        life=counters.life,
        read_at=timezone.now(),
    )
