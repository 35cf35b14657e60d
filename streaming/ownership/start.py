"""Owns the way from a validated request to a running response. Knows no HTTP."""

import asyncio
from collections.abc import Callable, Sequence

from django.conf import settings

from streaming.admission import TooMany
from streaming.engine.base import Sampling
from streaming.engine.registry import bundle_for
from streaming.engine.tokenizer import TokenizerBundle
from streaming.journal import Tail
from streaming.models import Engine, Response
from streaming.pool import Overloaded, UnknownModel
from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.response_stream import ResponseStream, StreamOptions
from streaming.relay import Job
from streaming.store import responses, threads
from streaming.store.responses import NewResponse

from .ask import Ask, Refused
from .joining import carrier
from .owner import Owner
from .prompting import Prompt, fit
from .stream_options import stream_options

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
        owner.pool.check_room(ask.model, owner.without_slot(ask.model))
    except TooMany as full:
        status, code = (429, "rate_limited") if full.whose == "user" else (503, "overloaded")
        raise Refused(status, code, str(full), retry_after_s=OVERLOAD_RETRY_S) from None
    except Overloaded as full:
        raise Refused(
            503,
            "overloaded",
            f"the model's queue is full: {full}",
            retry_after_s=full.retry_after_s,
        ) from None


async def start(owner: Owner, ask: Ask, row: Engine, received_at: float) -> tuple[Response, Tail]:
    """Store the response and launch its relay. Attach a reader to the tail before the next await.

    Raises Refused, and what store.responses.create raises. Cancelling it may come too late: what is stored
    gets its relay, and the policy decides what becomes of it.
    """
    prompt = await fit(ask, row, settings.MAX_OUTPUT_TOKENS)
    new = _new(owner, ask, prompt)
    bundle = bundle_for(row)
    options = stream_options(
        row.options,
        bundle,
        prompt.token_ids,
        new.id,
        asked=new.request["options"],
        stops=ask.stops,
        max_tokens=prompt.max_tokens,
        min_tokens=ask.sampling.get("min_tokens", 0),
    )
    open_stream = stream_opener(bundle, prompt.token_ids, options)

    def launch(response: Response) -> Tail:
        job = _job(ask, response, prompt)
        carry_on = carrier(response.id, bundle, prompt.token_ids, options)
        return owner.launch(job, open_stream, carry_on=carry_on, user_id=ask.user_id, received_at=received_at)

    def launch_late(stored: asyncio.Future[Response]) -> None:
        if not stored.cancelled() and not stored.exception():
            launch(stored.result())

    check_room(owner, ask)
    with owner.expecting(new.id, ask.user_id, ask.model):
        stored = owner.journal.create(new) if new.waits_for_nobody else threads.write(responses.create, new)
        storing = asyncio.ensure_future(stored)
        try:
            response = await asyncio.shield(storing)
        except asyncio.CancelledError:
            storing.add_done_callback(launch_late)
            raise
        return response, launch(response)


def stream_opener(
    bundle: TokenizerBundle, prompt_ids: Sequence[int], options: StreamOptions
) -> Callable[[bool], ResponseStream]:
    """A maker of the pure state, for an engine that yields ids or text."""

    def open_stream(yields_ids: bool) -> ResponseStream:
        detokenizer = Detokenizer(bundle.tokenizer, prompt_ids) if yields_ids else None
        return ResponseStream(detokenizer=detokenizer, **options)

    return open_stream


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
    )


def _job(ask: Ask, response: Response, prompt: Prompt) -> Job:
    return Job(
        response_id=response.id,
        epoch=response.epoch,
        model=ask.model,
        prompt_ids=prompt.token_ids,
        prompt_tokens=len(prompt.token_ids),
        messages=prompt.messages,
        sampling=Sampling(max_tokens=prompt.max_tokens, stop=ask.stops, json_schema=prompt.json_schema, **ask.sampling),
        policy=ask.policy,
        cache_salt=str(ask.user_id),
        tools=ask.tools,
        tool_choice=ask.tool_choice,
        conversation=ask.conversation_id or "",
    )
