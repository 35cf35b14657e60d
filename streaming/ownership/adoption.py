"""Owns carrying on, or ending, what a dead process left running. Does not judge who is dead."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from streaming.engine.base import EngineError, Sampling
from streaming.engine.registry import bundle_for, engine_for
from streaming.engine.tokenizer import TokenizerBundle
from streaming.models import Engine, Response
from streaming.protocol.end_state import STOPPED, decide
from streaming.protocol.events import STARTED, Event
from streaming.protocol.policy import Policy, parse_policy
from streaming.protocol.response_stream import StreamOptions
from streaming.relay import Job
from streaming.store import log, orphans, threads
from streaming.store.packing import unpack_prompt

from .joining import carrier, joined, rebuilt
from .owner import Owner
from .stream_options import stream_options

logger = logging.getLogger(__name__)


async def adopt_all(owner: Owner) -> int:
    """Take over every response that has not ended and is not this process's. Returns how many there were.

    Call it only where every other owner is known to be dead.
    """
    left = await threads.run(orphans.unended, owner.id)
    for response in left:
        await adopt_or_end(owner, response)
    return len(left)


async def adopt_or_end(owner: Owner, response: Response, reader_waits: bool = False) -> None:
    """Carry the response on where its policy or a reader wants it and an engine can, else end it ``truncated``.

    ``reader_waits``: the caller attaches a reader before it awaits anything else. A response that a person asked
    to stop, and whose owner died before its end was stored, is not carried on.
    Raises nothing but DatabaseError: one that cannot be read must keep nobody from starting or sweeping.
    """
    try:
        await _adopt_or_end(owner, response, reader_waits)
    except DatabaseError:
        raise
    except Exception:
        logger.exception("%s could not be carried on", response.id)
        # Taking over may have stopped half way: whoever owns it by now.
        await threads.run(response.refresh_from_db)
        await threads.write(orphans.end_orphan, response, orphans.LOST)


async def _adopt_or_end(owner: Owner, response: Response, reader_waits: bool) -> None:
    if response.stop_reason:
        await threads.write(orphans.end_orphan, response, decide(None, STOPPED, response.stop_reason))
        return
    policy = parse_policy(response.policy, settings.MAX_GRACE_S)
    followers = await owner.company.readers_of(response.id) if owner.company else {}
    wanted = policy.survives_owner or reader_waits or followers
    # An engine's grammar would begin anew in the middle of the answer.
    is_constrained = response.request.get("options", {}).get("constrained", False)
    row = await _engine_row(owner, response) if wanted and not is_constrained else None
    if row is None:
        await threads.write(orphans.end_orphan, response, orphans.LOST)
        return
    adopted = await threads.write(orphans.adopt, response, owner.id)
    if adopted:
        await _silence(owner, adopted[0])
        await _carry_on(owner, *adopted, row, policy, followers)


async def _engine_row(owner: Owner, response: Response) -> Engine | None:
    """An engine that goes on where another stopped."""
    rows = [row for row in await owner.pool.rows() if row.model == response.model]
    return next((row for row in rows if engine_for(row).can_continue), None)


async def _silence(owner: Owner, response: Response) -> None:
    """Who had it may only be paused, and its engine at work: that is told to stop, where it can be by a name."""
    for row in await owner.pool.rows():
        if row.pk == response.engine_id:
            with suppress(EngineError):
                await engine_for(row).abort(f"{response.id}-{response.epoch - 1}")


async def _carry_on(
    owner: Owner, response: Response, continued: Event, row: Engine, policy: Policy, followers: Mapping[str, int]
) -> None:
    events = await threads.run(log.read, response.id)
    bundle = bundle_for(row)
    prompt_ids = unpack_prompt(response.prompt_ids)
    options = _options(row, response, bundle, prompt_ids)
    logger.info("carrying on %s from event %d", response.id, continued.seq)
    owner.launch(
        _job(response, policy, joined(events, bundle, prompt_ids, options, engine_for(row).yields_ids)),
        lambda yields_ids: rebuilt(events, bundle, prompt_ids, options, yields_ids),
        carry_on=carrier(response.id, bundle, prompt_ids, options),
        user_id=response.user_id,
        received_at=asyncio.get_running_loop().time(),
        last_seq=continued.seq,
        earlier_tokens=sum(event.token_count for event in events),
        is_started=any(event.kind == STARTED for event in events),
        followers=followers,
    )


def _options(row: Engine, response: Response, bundle: TokenizerBundle, prompt_ids: list[int]) -> StreamOptions:
    return stream_options(
        row.options,
        bundle,
        prompt_ids,
        response.id,
        asked=response.request.get("options", {}),
        stops=tuple(response.request["stop"]),
        max_tokens=response.request["max_tokens"],
        min_tokens=response.request["sampling"].get("min_tokens", 0),
    )


def _job(response: Response, policy: Policy, prompt_ids: list[int]) -> Job:
    asked = response.request
    return Job(
        response_id=response.id,
        epoch=response.epoch,
        model=response.model,
        prompt_ids=prompt_ids,
        prompt_tokens=response.prompt_tokens or 0,
        messages=(),
        sampling=Sampling(max_tokens=asked["max_tokens"], stop=tuple(asked["stop"]), **_stored_sampling(response)),
        policy=policy,
        cache_salt=str(response.user_id),
    )


def _stored_sampling(response: Response) -> dict[str, Any]:
    """The sampling parameters as they were asked for; JSON made texts of the token ids."""
    sampling = dict(response.request["sampling"])
    if bias := sampling.get("logit_bias"):
        sampling["logit_bias"] = {int(token_id): value for token_id, value in bias.items()}
    return sampling
