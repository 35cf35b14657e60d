"""Owns a web process's start and end as an owner of responses. Decides no response's fate itself."""

import asyncio
import logging
from functools import cache, partial

from django.conf import settings
from django.db import DatabaseError

from streaming.engine.registry import bundle_for, close_engines
from streaming.engine.tokenizer import TokenizerError
from streaming.metrics import finished, registry
from streaming.protocol.liveness import Judge
from streaming.store import limits, threads

from .adoption import adopt_all
from .company import Company
from .draining import look_after_drained
from .gauges import Gauges
from .guards import Guards
from .late_proofs import prove_by_rows
from .owner import current
from .probe import Probe, Readiness
from .sweep import Sweep, sweep_own
from .watch import look_when_asked, watch_own

logger = logging.getLogger(__name__)


@cache
def guards() -> Guards:
    """The guards of this process's readers."""
    return Guards()


@cache
def _probe() -> Probe:
    return Probe(current())


async def readiness() -> Readiness:
    """Whether a question would be answered by this process now."""
    return await _probe().readiness()


async def metrics() -> bytes:
    """What this process counts and sees, as Prometheus reads it. Waits for no engine and no database."""
    owner = current()
    owner.observer.look_soon()
    for seat in owner.pool.seats:
        finished.expect(seat.row.name)
    return registry.text_of(Gauges(owner)) + await asyncio.to_thread(registry.text)


async def start_process(others_are_dead: bool) -> None:
    """Announce the process, read the engines, and take over what dead owners left.

    ``others_are_dead`` says that no other web process can be alive (the lock of a SQLite database is held).
    """
    owner = current()
    await owner.start()
    if names := await threads.run(limits.missing):
        logger.error("%s", limits.complaint(names))
    for row in await owner.pool.rows():
        try:
            await threads.run(bundle_for, row)
        except TokenizerError as error:
            logger.error("engine %s has no usable tokenizer: %s", row.name, error)
    if others_are_dead:
        taken = await adopt_all(owner)
        if taken:
            logger.info("took over %d responses of a process that is gone", taken)
    else:
        company = Company(owner.id, Judge(unchanged_s=settings.DEAD_S), owner.relay)
        owner.meet(company)
        owner.run_beside(partial(look_when_asked, owner, company))
        owner.run_beside(Sweep(owner, company.judge).run)
    owner.run_beside(partial(watch_own, owner))
    owner.run_beside(partial(look_after_drained, owner))
    owner.run_beside(partial(sweep_own, owner))
    owner.run_beside(partial(prove_by_rows, owner))
    owner.run_beside(guards().run)


async def stop_process(drain_s: float) -> None:
    """Let responses end for a while, release the rest for adoption, close the connections to engines."""
    try:
        await current().drain(drain_s)
    except DatabaseError:
        logger.warning("the database could not be told that this process ends", exc_info=True)
    guards().dismiss_all()
    await close_engines()
