"""Owns the common way of every route that starts or follows a response: policy, idempotency, refusals, handover."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse

from streaming import ownership
from streaming.admission import TooMany
from streaming.journal import Tail
from streaming.models import Response
from streaming.ownership.adoption import adopt_or_end
from streaming.ownership.ask import Ask, Refused
from streaming.ownership.start import check, start
from streaming.protocol.dialects import encoder_for
from streaming.protocol.policy import Policy, PolicyError, parse_policy
from streaming.reader import Reader
from streaming.store import heads, responses, threads
from streaming.store.creation import ConversationBusy, KeyTaken

from . import refusals
from .auth import caller, credential
from .errors import ApiError, deleted
from .handover import BodyHandover, StreamHandover
from .limit_headers import limit_headers
from .position import refuse_expired
from .response_body import asked_of, response_body

BeforePrompt = Callable[[Ask], Awaitable[Ask]]

KEY_CHARS = 200
READERS_RETRY_S = 5.0
STREAM_HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "Content-Encoding": "identity",
}


def idempotency_key(request: HttpRequest) -> str | None:
    """The caller's key, checked; raises ApiError."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key) <= KEY_CHARS or not all(33 <= ord(c) <= 126 for c in key):
        raise ApiError(
            400,
            f"Idempotency-Key: 1 to {KEY_CHARS} visible ASCII characters (got {len(key)})",
            code="invalid_request",
            param="Idempotency-Key",
        )
    return key


def policy(request: HttpRequest, default: str) -> Policy:
    """The disconnect policy of the request's header; raises ApiError."""
    try:
        return parse_policy(request.headers.get("X-Disconnect-Policy", default), settings.MAX_GRACE_S)
    except PolicyError as error:
        raise ApiError(
            400, f"X-Disconnect-Policy: {error}", code="invalid_request", param="X-Disconnect-Policy"
        ) from None


def fingerprint(body: Mapping[str, Any]) -> str:
    """A hash that tells whether two requests with one idempotency key are the same."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


async def attach_or_start(request: HttpRequest, ask: Ask, before_prompt: BeforePrompt | None = None) -> HttpResponse:
    """Answer with the response that the idempotency key names, or with a new one.

    ``before_prompt`` is awaited after all that can be refused without the prompt; it returns the ask again.
    """
    owner = ownership.current()
    received_at = asyncio.get_running_loop().time()
    if ask.idempotency_key and (known := await _known(ask)):
        return await _attach(request, ask, known)
    try:
        row = await check(owner, ask)
        if before_prompt:
            ask = await before_prompt(ask)
        response, tail = await start(owner, ask, row, received_at)
    except KeyTaken:
        if (known := await _known(ask)) is None:
            raise deleted() from None
        return await _attach(request, ask, known)
    except ConversationBusy:
        raise ApiError(409, "another answer of this conversation is running", code="conversation_busy") from None
    except Refused as refused:
        raise refusals.as_error(refused, ask.dialect) from None
    answer = await _first_answer(request, ask, response, tail)
    for name, value in limit_headers(ask.dialect, (response.reserved or {}).get("left", {})).items():
        answer.headers[name] = value
    return answer


async def _first_answer(request: HttpRequest, ask: Ask, response: Response, tail: Tail) -> HttpResponse:
    """Nothing is awaited before the reader's place."""
    if ask.detached:
        return await started(response)
    asked = (ask.kept or {}).get("asked")
    return _hand_over(request, response, tail, cursor=0, stream=ask.stream, dialect=ask.dialect, asked=asked)


async def _known(ask: Ask) -> Response | None:
    return await threads.run(responses.by_key, ask.user_id, ask.idempotency_key)


async def _attach(request: HttpRequest, ask: Ask, known: Response) -> HttpResponse:
    if known.request_sha256 and known.request_sha256 != ask.request_sha256:
        raise ApiError(
            422,
            "Idempotency-Key: the key was used with another request",
            code="idempotency_key_reused",
            param="Idempotency-Key",
        )
    if ask.detached:
        return await started(known)
    await refuse_expired(known)
    return await follow(request, known, cursor=0, stream=ask.stream, dialect=ask.dialect)


async def started(response: Response) -> HttpResponse:
    """The response as it stands, for a caller who will come back for it."""
    answer = JsonResponse(await response_body(response))
    answer.headers["X-Response-ID"] = response.id
    return answer


async def follow(
    request: HttpRequest,
    response: Response,
    *,
    cursor: int,
    stream: bool,
    dialect: str | None = None,
    starting_after: int = 0,
) -> HttpResponse:
    """Answer with a stored or running response, from a cursor on; ``dialect`` where it is not that of its creation.

    ``starting_after`` is the last number of the responses dialect that the caller has.
    """
    owner = ownership.current()
    await owner.places.launched(response.id)
    if owner.is_orphan(response):
        await adopt_or_end(owner, response, reader_waits=True)
    asked = await asked_of(response)
    try:
        # Nothing is awaited from here to the reader's place.
        owner.readers.check(caller(request).user.pk, response.id)
    except TooMany as full:
        raise refusals.as_error(Refused(429, "rate_limited", str(full), retry_after_s=READERS_RETRY_S)) from None
    return _hand_over(
        request,
        response,
        owner.tail(response.id),
        cursor=cursor,
        stream=stream,
        dialect=dialect or response.dialect,
        asked=asked,
        starting_after=starting_after,
    )


def _hand_over(
    request: HttpRequest,
    response: Response,
    tail: Tail | None,
    *,
    cursor: int,
    stream: bool,
    dialect: str,
    asked: Mapping[str, Any] | None,
    starting_after: int = 0,
) -> HttpResponse:
    """Leave a reader for the wrapper around Django and return what gives it headers."""
    owner = ownership.current()
    encoder = encoder_for(dialect, heads.head(response, asked), starting_after)
    reader = Reader(
        response.id,
        encoder,
        tail=tail,
        journal=owner.journal,
        presence=owner.company.presence if owner.company and response.end_state is None else None,
        owner=response.owner,
        follow_poll_s=settings.FOLLOW_POLL_S,
        heartbeat_s=settings.HEARTBEAT_S,
        cursor=cursor,
    )
    ownership.guards().let_in(reader, credential(request))
    closing = ExitStack()
    closing.enter_context(owner.readers.place(caller(request).user.pk, response.id))
    closing.callback(reader.close)
    handover: StreamHandover | BodyHandover
    if stream:
        handover = StreamHandover(reader, encoder, closing, early_s=settings.EARLY_HEADERS_S, refuses=cursor == 0)
    else:
        handover = BodyHandover(reader, encoder, closing)
    request.scope["handover"] = handover  # type: ignore[attr-defined]
    answer = HttpResponse(content_type="text/event-stream; charset=utf-8" if stream else "application/json")
    answer.headers["X-Response-ID"] = response.id
    for name, value in STREAM_HEADERS.items() if stream else ():
        answer.headers[name] = value
    return answer
