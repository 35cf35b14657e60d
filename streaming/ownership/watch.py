"""Owns noticing what others did to responses that run here: a stop, a reader elsewhere, a new owner."""

import asyncio
import logging

from django.conf import settings
from django.db import DatabaseError

from streaming.protocol.end_state import STOPPED, decide
from streaming.relay import Relay
from streaming.store import threads, watch
from streaming.store.watch import Owned

from .company import Company
from .owner import Owner

logger = logging.getLogger(__name__)


async def watch_own(owner: Owner) -> None:
    """Look every STOP_POLL_S while something runs here: one query, whatever the number of responses."""
    while True:
        await asyncio.sleep(settings.STOP_POLL_S)
        try:
            if owner.running:
                await look(owner)
            if owner.company:
                await owner.company.count_delivered()
        except DatabaseError as error:
            logger.warning("could not look what others did to our responses: %s", error)


async def look_when_asked(owner: Owner, company: Company) -> None:
    """Look at once when another process rings; one look for all rings that came meanwhile."""
    while True:
        await company.asked.wait()
        company.asked.clear()
        try:
            await look(owner)
        except DatabaseError as error:
            logger.warning("could not look at what a doorbell announced: %s", error)


async def look(owner: Owner) -> None:
    """Carry out stops that were asked for elsewhere, count readers elsewhere, give up what is no longer ours."""
    running = set(owner.running)
    owned = await threads.run(watch.owned, owner.id)
    for response_id in running & owned.keys():
        if relay := owner.relay(response_id):
            _take_note(owner, relay, owned[response_id])
    unseen = [response_id for response_id in running - owned.keys() if owner.relay(response_id)]
    if unseen:
        await _give_up_lost(owner, unseen)


def _take_note(owner: Owner, relay: Relay, seen: Owned) -> None:
    if owner.company:
        relay.tail.followed(owner.company.living(seen.readers))
    relay.tail.delivered_elsewhere(seen.delivered_tokens)
    if seen.stop_reason:
        relay.stop(decide(None, STOPPED, seen.stop_reason))


async def _give_up_lost(owner: Owner, unseen: list[str]) -> None:
    """Of responses that are not among our unended ones: those that ended just now are ours, another epoch is not."""
    epochs = await threads.run(watch.epochs, unseen)
    for response_id in unseen:
        relay = owner.relay(response_id)
        if relay and epochs.get(response_id) != relay.job.epoch:
            relay.tail.fenced = True
            relay.tail.wake()
