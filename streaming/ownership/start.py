"""Owns the way from a validated request to a running response. Knows no HTTP."""

import asyncio
import sys
from dataclasses import replace

from django.conf import settings

from streaming import tools
from streaming.admission import Allowed, TooMany
from streaming.journal import Tail
from streaming.models import Engine, Response
from streaming.pool import AllDrained, Overloaded, UnknownModel
from streaming.relay import Job
from streaming.store import creation, threads
from streaming.store.creation import NewResponse
from streaming.store.quotas import Claim, OverQuota

from .ask import Ask, Refused
from .beginning import beginning_of, job_of
from .own_tools import check_offered
from .owner import Owner
from .prompting import Prompt, fit
from .round_prompts import RoundPrompts

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
    check_offered(ask.run_tools)
    _check_allowed(ask, await owner.quotas.allowed(ask.user_id, ask.api_key_id))
    check_room(owner, ask)
    return row


def _check_allowed(ask: Ask, allowed: Allowed) -> None:
    """What quotas say of a request whatever was used before it. Raises Refused."""
    if not allowed.has(ask.model):
        names = ", ".join(allowed.models or ()) or "none"
        message = f"model: your quota allows {names} (got {ask.model[:80]!r})"
        raise Refused(403, "model_not_allowed", message, param="model")
    cap = allowed.max_output_tokens
    if cap is not None and ask.max_tokens is not None and ask.max_tokens > cap:
        message = f"max_tokens: your quota allows at most {cap} (got {ask.max_tokens})"
        raise Refused(400, "invalid_request", message, param="max_tokens")


def check_room(owner: Owner, ask: Ask) -> None:
    """The caps. Looked at once more when a place is taken: others may have come since. Raises Refused."""
    if owner.draining:
        raise Refused(503, "overloaded", "the server is stopping", retry_after_s=OVERLOAD_RETRY_S)
    if ask.purpose in Response.UNHURRIED and owner.places.without_slot(ask.model) >= _spare(owner, ask):
        raise Refused(503, "overloaded", f"a {ask.purpose} waits for an idle engine", retry_after_s=OVERLOAD_RETRY_S)
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


def _spare(owner: Owner, ask: Ask) -> int:
    """How many of its kind may be there: titles are over soon, while a batch leaves the last slot to whoever comes."""
    is_batch = ask.purpose == Response.Purpose.BATCH
    return owner.pool.spare(ask.model) if is_batch else owner.pool.room(ask.model)


async def start(owner: Owner, ask: Ask, row: Engine, received_at: float) -> tuple[Response, Tail]:
    """Store the response and launch its relay. Attach a reader to the tail before the next await.

    Raises Refused, and what store.creation.create raises. Cancelling it may come too late: what is stored
    gets its relay, and the policy decides what becomes of it.
    """
    allowed = await owner.quotas.allowed(ask.user_id, ask.api_key_id)
    if ask.run_tools:
        ask = replace(ask, tools=tools.definitions(ask.run_tools))
    prompt = await fit(ask, row, min(settings.MAX_OUTPUT_TOKENS, allowed.max_output_tokens or sys.maxsize))
    new = _new(owner, ask, prompt, allowed, asyncio.get_running_loop().time() - received_at)
    beginning = beginning_of(row, new.id, new.request, prompt.token_ids)
    if ask.run_tools:
        beginning = replace(beginning, prompts=RoundPrompts(replace(ask, messages=prompt.messages), row))

    def launch(response: Response) -> Tail:
        # Quotas may have left the answer fewer tokens.
        begin = beginning.within(response.request["max_tokens"])
        return owner.launch(_job(ask, response, prompt), begin, user_id=ask.user_id, received_at=received_at)

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
        except OverQuota as over:
            wait_s = over.full.retry_after_s
            raise Refused(429, "rate_limited", str(over), retry_after_s=wait_s, left=over.left) from None
        return response, launch(response)


def _new(owner: Owner, ask: Ask, prompt: Prompt, allowed: Allowed, age_s: float) -> NewResponse:
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
        claim=Claim(allowed.places, _least(ask, prompt)) if allowed.places else None,
        age_s=age_s,
    )


def _least(ask: Ask, prompt: Prompt) -> int:
    """The fewest tokens that an answer begins with: all that were asked for; who named no number takes what is left."""
    return prompt.max_tokens if ask.max_tokens is not None else max(1, ask.sampling.get("min_tokens", 0))


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
