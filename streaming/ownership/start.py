"""Owns the way from a validated request to a running response. Knows no HTTP."""

import asyncio
from dataclasses import replace

from django.conf import settings

from streaming.admission import TooMany
from streaming.journal import Tail
from streaming.models import Engine, Response
from streaming.pool import AllDrained, Overloaded, UnknownModel
from streaming.relay import Job
from streaming.store import creation, threads
from streaming.store.creation import NewResponse

from .ask import Ask, Refused
from .beginning import beginning_of, job_of
from .owner import Owner
from .prompting import Prompt, fit

OVERLOAD_RETRY_S = 5.0


async def check(owner: Owner, ask: Ask) -> Engine:
    """All that can be refused without the prompt; returns an engine row of the model. Raises Refused."""
    try:
        row = await owner.pool.row_for(ask.model)
    except UnknownModel:
        raise Refused(
            404,
            "model_not_found",
            f"model: no model {ask.model[:80]!r} is served here",
            param="model",
        ) from None
    check_room(owner, ask)
    return row


def check_room(owner: Owner, ask: Ask) -> None:
    """The caps. Looked at once more when a place is taken: others may have come since. Raises Refused."""
    if owner.draining:
        raise Refused(503, "overloaded", "the server is stopping", retry_after_s=OVERLOAD_RETRY_S)
    try:
        owner.admission.check(ask.user_id)
        owner.pool.check_room(ask.model, owner.places.without_slot(ask.model))
    except TooMany as full:
        status, code = (429, "rate_limited") if full.whose == "user" else (503, "overloaded")
        raise Refused(status, code, str(full), retry_after_s=OVERLOAD_RETRY_S) from None
    except AllDrained:
        message = "every engine of this model is being taken out of service"
        raise Refused(503, "overloaded", message, retry_after_s=OVERLOAD_RETRY_S) from None
    except Overloaded as full:
        raise Refused(
            503,
            "overloaded",
            f"the model's queue is full: {full}",
            retry_after_s=full.retry_after_s,
        ) from None


async def start(owner: Owner, ask: Ask, row: Engine, received_at: float) -> tuple[Response, Tail]:
    """Store the response and launch its relay. Attach a reader to the tail before the next await.

    Raises Refused, and what store.creation.create raises. Cancelling it may come too late: what is stored
    gets its relay, and the policy decides what becomes of it.
    """
    prompt = await fit(ask, row, settings.MAX_OUTPUT_TOKENS)
    new = _new(owner, ask, prompt)
    beginning = beginning_of(row, new.id, new.request, prompt.token_ids)

    def launch(response: Response) -> Tail:
        return owner.launch(_job(ask, response, prompt), beginning, user_id=ask.user_id, received_at=received_at)

    def launch_late(stored: asyncio.Future[Response]) -> None:
        if not stored.cancelled() and not stored.exception():
            launch(stored.result())

    check_room(owner, ask)
    with owner.places.expecting(new.id, ask.user_id, ask.model):
        stored = owner.journal.create(new) if new.waits_for_nobody else threads.write(creation.create, new)
        storing = asyncio.ensure_future(stored)
        try:
            response = await asyncio.shield(storing)
        except asyncio.CancelledError:
            storing.add_done_callback(launch_late)
            raise
        return response, launch(response)


def _new(owner: Owner, ask: Ask, prompt: Prompt) -> NewResponse:
    return NewResponse(
        user_id=ask.user_id,
        api_key_id=ask.api_key_id,
        purpose=ask.purpose,
        dialect=ask.dialect,
        model=ask.model,
        policy=str(ask.policy),
        stream=ask.stream,
        request={
            "max_tokens": prompt.max_tokens,
            "stop": list(ask.stops),
            "sampling": dict(ask.sampling),
            "options": ask.stored_options,
        },
        prompt_ids=prompt.token_ids,
        owner=owner.id,
        idempotency_key=ask.idempotency_key,
        request_sha256=ask.request_sha256,
        conversation_id=ask.conversation_id,
        question=ask.question,
        parent_id=ask.parent_id,
        kept=ask.kept,
        no_store=ask.no_store,
    )


def _job(ask: Ask, response: Response, prompt: Prompt) -> Job:
    job = job_of(response, ask.policy, prompt.token_ids)
    return replace(
        job,
        sampling=replace(job.sampling, json_schema=prompt.json_schema),
        messages=prompt.messages,
        tools=ask.tools,
        tool_choice=ask.tool_choice,
        one_call=ask.one_call,
    )
