"""Owns carrying on, or ending, what a dead process left running. Does not judge who is dead."""

import asyncio
import logging
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from streaming.engine.base import Sampling
from streaming.engine.prompt import carry_on
from streaming.engine.registry import bundle_for, engine_for
from streaming.engine.tokenizer import TokenizerBundle
from streaming.models import Engine, Response
from streaming.pool import UnknownModel
from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.end_state import STOPPED, decide
from streaming.protocol.events import STARTED, TEXT, Event
from streaming.protocol.markers import spelled
from streaming.protocol.policy import Policy, parse_policy
from streaming.protocol.response_stream import ResponseStream, StreamOptions
from streaming.relay import Job
from streaming.store import log, orphans, threads
from streaming.store.packing import unpack_prompt

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

    ``reader_waits``: the caller attaches a reader before it awaits anything else. One that a person asked to stop, and whose owner died before its end was stored, is not carried on.
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
    readers = await owner.readers_elsewhere(response.id)
    wanted = policy.survives_owner or reader_waits or readers
    row = await _engine_row(owner, response) if wanted else None
    if row is None or not engine_for(row).can_continue:
        await threads.write(orphans.end_orphan, response, orphans.LOST)
        return
    adopted = await threads.write(orphans.adopt, response, owner.id)
    if adopted:
        await _carry_on(owner, *adopted, row, policy, readers)


async def _engine_row(owner: Owner, response: Response) -> Engine | None:
    try:
        return await owner.pool.row_for(response.model)
    except UnknownModel:
        return None


async def _carry_on(
    owner: Owner, response: Response, continued: Event, row: Engine, policy: Policy, readers: int
) -> None:
    events = await threads.run(log.read, response.id)
    bundle = bundle_for(row)
    prompt_ids = unpack_prompt(response.prompt_ids)
    options = _options(row, response, bundle, prompt_ids)
    logger.info("carrying on %s from event %d", response.id, continued.seq)
    owner.launch(
        _job(response, policy, _join(row, bundle, prompt_ids, events, options)),
        lambda yields_ids: _rebuild(events, bundle, prompt_ids, options, yields_ids),
        user_id=response.user_id,
        received_at=asyncio.get_running_loop().time(),
        last_seq=continued.seq,
        earlier_tokens=sum(event.token_count for event in events),
        is_started=any(event.kind == STARTED for event in events),
        readers_elsewhere=readers,
    )


def _options(row: Engine, response: Response, bundle: TokenizerBundle, prompt_ids: list[int]) -> StreamOptions:
    return stream_options(
        row.options,
        bundle,
        prompt_ids,
        response.id,
        stops=tuple(response.request["stop"]),
        max_tokens=response.request["max_tokens"],
        min_tokens=response.request["sampling"].get("min_tokens", 0),
    )


def _join(
    row: Engine, bundle: TokenizerBundle, prompt_ids: list[int], events: list[Event], options: StreamOptions
) -> list[int]:
    """The prompt and what was produced after it: the same ids, or the shown text tokenized."""
    if engine_for(row).yields_ids:
        return prompt_ids + [token_id for event in events for token_id in event.token_ids]
    markers = options.get("markers")
    if markers is not None:
        return carry_on(bundle, prompt_ids, spelled(markers, events, options.get("in_reasoning", False)))
    return carry_on(bundle, prompt_ids, "".join(e.payload["text"] for e in events if e.kind == TEXT))


def _rebuild(
    events: list[Event], bundle: TokenizerBundle, prompt_ids: list[int], options: StreamOptions, yields_ids: bool
) -> ResponseStream:
    detokenizer = Detokenizer(bundle.tokenizer, prompt_ids) if yields_ids else None
    return ResponseStream.rebuild(events, detokenizer=detokenizer, **options)


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
