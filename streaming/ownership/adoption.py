"""Owns carrying on, or ending, what a dead process left running. Does not judge who is dead."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.conf import settings

from streaming.engine.registry import engine_for
from streaming.models import Engine, Response
from streaming.protocol.end_state import STOPPED, End, decide
from streaming.protocol.events import Event
from streaming.protocol.policy import Policy, parse_policy
from streaming.protocol.rounds import rounds_of
from streaming.relay import Job
from streaming.store import history, log, orphans, threads
from streaming.store.attempts import has_called
from streaming.store.packing import unpack_prompt
from streaming.store.trouble import UNAVAILABLE

from .ask import Ask
from .beginning import beginning_of, job_of
from .owner import Owner
from .prompting import fitted
from .round_prompts import RoundPrompts
from .silencing import silence

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
    Raises nothing but UNAVAILABLE: one that cannot be read, or written, must keep nobody from starting or sweeping.
    """
    if owner.relay(response.id) or owner.places.expects(response.id):
        # The row is ours a moment before its relay runs: who comes meanwhile must not begin a second one.
        await owner.places.launched(response.id)
        return
    with owner.places.expecting(response.id, response.user_id, response.model):
        await _adopt_or_lose(owner, response, reader_waits)


async def _adopt_or_lose(owner: Owner, response: Response, reader_waits: bool) -> None:
    try:
        await _adopt_or_end(owner, response, reader_waits)
    except UNAVAILABLE:
        raise
    except Exception:
        logger.exception("%s could not be carried on", response.id)
        await _lose(response)


async def _lose(response: Response) -> None:
    """Taking over may have stopped half way: whoever owns it by now. It may also be deleted by now."""
    try:
        await threads.run(response.refresh_from_db)
        await threads.write(orphans.end_orphan, response, orphans.LOST)
    except UNAVAILABLE:
        raise
    except Response.DoesNotExist:
        pass
    except Exception:
        logger.exception("%s could not be ended", response.id)


async def _adopt_or_end(owner: Owner, response: Response, reader_waits: bool) -> None:
    if response.stop_reason:
        await _end(owner, response, decide(None, STOPPED, response.stop_reason))
        return
    policy = parse_policy(response.policy, settings.MAX_GRACE_S)
    followers = await owner.company.readers_of(response.id) if owner.company else {}
    wanted = policy.survives_owner or reader_waits or followers
    row = await _engine_row(owner, response) if wanted else None
    if row is None:
        await _end(owner, response, orphans.LOST)
        return
    if events := await threads.write(orphans.adopt, response, owner.id):
        await silence(owner, response)
        await _carry_on(owner, response, row, policy, followers, events)


async def _end(owner: Owner, response: Response, how: End) -> None:
    if await threads.write(orphans.end_orphan, response, how):
        await silence(owner, response)


async def _engine_row(owner: Owner, response: Response) -> Engine | None:
    """An engine that goes on where another stopped; a round of which there is nothing yet may begin at any.

    The owner may store more before it loses the response: it is read again when that is ours.
    """
    rounds = rounds_of(await threads.run(log.read, response.id) if response.run_tools else ())
    rows = [row for row in await owner.pool.rows() if row.model == response.model]
    if rounds[-1].is_over or has_called(response.attempts, rounds):
        return next(iter(rows), None)
    if response.options.get("constrained") and len(rounds) == 1:
        return None  # its grammar would begin anew in the middle of the answer
    return next((row for row in rows if engine_for(row).can_continue), None)


async def _carry_on(
    owner: Owner,
    response: Response,
    row: Engine,
    policy: Policy,
    followers: Mapping[str, int],
    events: Sequence[Event],
) -> None:
    """``events`` are the log as it was taken over: nobody else adds to it."""
    prompt_ids = unpack_prompt(response.prompt_ids)
    beginning = beginning_of(row, response.id, response.request, prompt_ids)
    job = job_of(response, policy, prompt_ids)
    if job.run_tools:
        ask = await threads.run(_asked, response, job)
        turns, _ = await fitted(ask, row)
        prompts = RoundPrompts(replace(ask, messages=turns), row)
        beginning = replace(beginning, prompts=prompts)
        is_called = has_called(response.attempts, rounds_of(events))
        job = replace(job, prompt_tokens=0 if is_called else await beginning.read_in_round(events))
    logger.info("carrying on %s from event %d", response.id, events[-1].seq)
    owner.launch(
        job,
        beginning,
        events,
        user_id=response.user_id,
        received_at=asyncio.get_running_loop().time(),
        age_s=orphans.age_ms(response, events) / 1000,
        followers=followers,
    )


def _asked(response: Response, job: Job) -> Ask:
    """What was asked for, with the turns as the conversation has them."""
    assert response.conversation_id
    assert response.message
    return Ask(
        user_id=response.user_id,
        purpose=response.purpose,
        dialect=response.dialect,
        stream=response.stream,
        model=response.model,
        messages=history.thread(response.conversation_id, response.message.parent_id, with_results=True),
        policy=job.policy,
        conversation_id=response.conversation_id,
        tools=job.tools,
        run_tools=tuple(job.run_tools),
    )
