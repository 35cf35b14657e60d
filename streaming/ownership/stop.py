"""Owns stopping a response for a person: idempotent, durable, answered after the end is stored. Knows no HTTP."""

import asyncio
from contextlib import suppress

from django.conf import settings

from streaming.models import Response
from streaming.notify import ENDED, Change
from streaming.protocol.end_state import STOPPED, decide
from streaming.store import orphans, responses, threads

from .owner import Owner
from .silencing import silence

END_POLL_S = 0.05
STORING_S = 1.0


async def stop(owner: Owner, response: Response, reason: str) -> None:
    """Stop a response in whatever phase it is, and return when its end is stored.

    ``reason`` is an end reason of ``cancelled``. A response that has ended stays as it is.
    """
    if response.end_state is not None:
        return
    end = decide(None, STOPPED, reason)
    await owner.places.launched(response.id)
    if relay := owner.relay(response.id):
        # The engine first: it must not work on while a busy database keeps us waiting.
        relay.stop(end)
        await threads.write(responses.request_stop, response.id, reason)
        await owner.ended(response.id)
    elif owner.is_orphan(response):
        if await threads.write(orphans.end_orphan, response, end):
            await silence(owner, response)
        if response.conversation_id:
            owner.changes.announce(response.user_id, Change(ENDED, response.conversation_id, response.id))
    else:
        await threads.write(responses.request_stop, response.id, reason)
        if owner.company:
            owner.company.ring(response.owner, response.id)
        await _ended_elsewhere(response.id)


async def _ended_elsewhere(response_id: str) -> None:
    """Wait until the owner, another process that looks every STOP_POLL_S, has stored the end; not for ever.

    Should it die over this, the stop stands in the row: whoever takes the response over ends it.
    """
    patience_s = 2 * settings.STOP_POLL_S + settings.STOP_PROOF_S + STORING_S
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            while not await threads.run(responses.has_ended, response_id):  # noqa: ASYNC110  another process
                await asyncio.sleep(END_POLL_S)
