"""Owns stopping a response for a person: idempotent, durable, answered after the end is stored. Knows no HTTP."""

from streaming.models import Response
from streaming.protocol.end_state import STOPPED, decide
from streaming.store import orphans, responses, threads

from .owner import Owner


async def stop(owner: Owner, response: Response, reason: str) -> None:
    """Stop a response in whatever phase it is, and return when its end is stored.

    ``reason`` is an end reason of ``cancelled``. A response that has ended stays as it is.
    """
    if response.end_state is not None:
        return
    end = decide(None, STOPPED, reason)
    await threads.run(responses.request_stop, response.id)
    await owner.launched(response.id)
    relay = owner.relay(response.id)
    if relay is None:
        if response.owner != owner.id:
            await threads.run(orphans.end_orphan, response, end)
        return
    relay.stop(end)
    await owner.ended(response.id)
