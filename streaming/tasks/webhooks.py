"""Owns the task that tells endpoints of ended responses: rounds of requests, and when to try again. Signs nothing."""

import asyncio
import logging
import os
import random
import re
import time
from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

from streaming.metrics import task_counts
from streaming.models import WebhookDelivery, WebhookEndpoint
from streaming.models.webhook import SECRET_VARIABLE
from streaming.store import outbox

from .ticks import tick
from .webhook_request import NotAllowed, Outcome, check_url, key_of, send, session

logger = logging.getLogger(__name__)

PER_ROUND = 50
#: A run begins no further round after so long: others wait for the worker.
RUN_S = 20.0
TIMEOUT_S = 10.0
#: How long nobody else takes what is being sent; longer than a round.
LEASE = timedelta(seconds=60)
ATTEMPTS_MAX = 12
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 6 * 3600.0
KEEP = timedelta(days=30)
TURN = "webhooks"


@tick("streaming.deliver_webhooks", every_s=5)
def deliver_webhooks() -> int:
    """Send what is due, in rounds, one run at a time. Returns how many deliveries were taken."""
    if not cache.add(TURN, 1, LEASE.total_seconds()):
        return 0
    try:
        return _rounds()
    finally:
        cache.delete(TURN)


@tick("streaming.forget_webhooks", every_s=3600)
def forget_webhooks() -> int:
    """Remove what was delivered long ago. Returns how many rows."""
    return outbox.forget(timezone.now() - KEEP)


def _rounds() -> int:
    began_s, count = time.monotonic(), 0
    while time.monotonic() - began_s < RUN_S and (taken := outbox.take_due(PER_ROUND, LEASE)):
        outcomes = asyncio.run(_send_all(taken))
        for delivery, outcome in zip(taken, outcomes, strict=True):
            _note(delivery, outcome)
            count += not outcome.error
        _rest({d.endpoint_id for d, o in zip(taken, outcomes, strict=True) if not o.error}, taken)
    return count


async def _send_all(deliveries: Sequence[WebhookDelivery]) -> list[Outcome]:
    async with session(TIMEOUT_S, settings.WEBHOOKS_TO_PRIVATE) as web:

        async def one(delivery: WebhookDelivery) -> Outcome:
            endpoint = delivery.endpoint
            try:
                check_url(endpoint.url, settings.WEBHOOKS_TO_PRIVATE)
                key = _key(endpoint)
            except (NotAllowed, ValueError) as error:
                return Outcome(None, str(error))
            return await send(web, endpoint.url, key, delivery.response_id, delivery.payload, int(time.time()))

        return list(await asyncio.gather(*(one(delivery) for delivery in deliveries)))


def _key(endpoint: WebhookEndpoint) -> bytes:
    """ValueError where the row names a variable that holds no secret of a webhook."""
    if not re.fullmatch(SECRET_VARIABLE, endpoint.secret_env) or endpoint.secret_env not in os.environ:
        raise ValueError(f"the environment has no {endpoint.secret_env[:100]}")
    return key_of(os.environ[endpoint.secret_env])


def _note(delivery: WebhookDelivery, outcome: Outcome) -> None:
    if not outcome.error:
        outbox.told(delivery, outcome.status or 0)
        task_counts.delivered("taken")
        return
    is_last = delivery.attempts >= ATTEMPTS_MAX
    task_counts.delivered("given_up" if is_last else "failed")
    outbox.failed(delivery, outcome.error, outcome.status, None if is_last else pause(delivery.attempts))
    log = logger.error if is_last else logger.info
    log(
        "webhook %s of %s, attempt %d: %s", delivery.endpoint.name, delivery.response_id, delivery.attempts,
        outcome.error,
    )  # fmt: skip


def pause(attempts: int) -> timedelta:
    """Until the next attempt: four times as long each time, and no two alike."""
    return timedelta(seconds=min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 4 ** (attempts - 1)) * random.uniform(0.8, 1.2))


def _rest(well: set[int], taken: Sequence[WebhookDelivery]) -> None:
    for endpoint in {delivery.endpoint for delivery in taken}:
        if endpoint.pk in well:
            outbox.is_well(endpoint.pk)
        else:
            rest_s = FIRST_PAUSE_S * 2 ** min(endpoint.failed_rounds, 10)
            outbox.rests(endpoint.pk, timedelta(seconds=rest_s))
