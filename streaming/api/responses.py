"""Owns following and stopping a response, alike for keys and for the page. Starts none."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from streaming import ownership
from streaming.models import Response
from streaming.ownership.stop import stop
from streaming.protocol.dialects import ENCODERS, OPENAI_CHAT, OPENAI_RESPONSES
from streaming.protocol.end_state import STOPPED, decide
from streaming.store import creation, responses, threads
from streaming.store.creation import KeyTaken, NewResponse

from .answering import follow, idempotency_key
from .auth import caller
from .errors import ApiError, deleted
from .position import cursor_of
from .response_body import described, response_body
from .schemas import ResponseChange

v1_router = Router()
page_router = Router()


async def found(request: HttpRequest, response_id: str) -> Response:
    """The caller's response; raises ApiError, alike for unknown ones and for somebody else's."""
    response = await threads.run(responses.get, response_id, caller(request).user.pk)
    if response is None:
        raise unknown()
    return response


def unknown() -> ApiError:
    """Alike for what never was and for somebody else's."""
    return ApiError(404, "there is no such response", code="not_found")


# Before the routes with an id: a path is taken by the first that fits.
@v1_router.post("/responses/cancel", response=dict[str, Any], summary="Stop an answer by its Idempotency-Key")
@page_router.post("/responses/cancel", response=dict[str, Any])
async def cancel_by_key(request: HttpRequest) -> dict[str, Any]:
    """Stop the response of an Idempotency-Key, also one whose request has not arrived yet."""
    key = idempotency_key(request)
    if key is None:
        raise ApiError(400, "Idempotency-Key: this header is required", code="invalid_request", param="Idempotency-Key")
    user_id = caller(request).user.pk
    response = await threads.run(responses.by_key, user_id, key)
    if response is None:
        try:
            end = decide(None, STOPPED, _reason(request))
            response = await threads.write(creation.cancel_unknown, _unknown(request, key), end)
        except KeyTaken:
            if (response := await threads.run(responses.by_key, user_id, key)) is None:
                raise deleted() from None
    return await _stopped(request, response)


@page_router.get("/responses/{response_id}", response=dict[str, Any])
async def retrieve(request: HttpRequest, response_id: str) -> dict[str, Any]:
    """A response's state, end and usage."""
    return described(await found(request, response_id))


@page_router.patch("/responses/{response_id}", response={204: None})
async def change(request: HttpRequest, response_id: str, body: ResponseChange) -> Any:
    """What the user thinks of the answer."""
    if not await threads.write(responses.mark, response_id, caller(request).user.pk, body.mark):
        raise unknown()
    return Status(204, None)


@v1_router.get("/responses/{response_id}/stream", summary="Read an answer as a stream, from any position")
@page_router.get("/responses/{response_id}/stream")
async def stream(
    request: HttpRequest, response_id: str, starting_after: str | None = None, dialect: str | None = None
) -> HttpResponse:
    """The response's stream, from a cursor on: what was stored, then what comes; in any dialect."""
    response = await found(request, response_id)
    if dialect is not None and dialect not in ENCODERS:
        message = f"dialect: one of {', '.join(ENCODERS)} (got {dialect[:40]!r})"
        raise ApiError(400, message, code="invalid_request", param="dialect")
    cursor = await cursor_of(request, response, starting_after)
    return await follow(request, response, cursor=cursor, stream=True, dialect=dialect)


@v1_router.post("/responses/{response_id}/cancel", response=dict[str, Any], summary="Stop an answer")
@page_router.post("/responses/{response_id}/cancel", response=dict[str, Any])
async def cancel(request: HttpRequest, response_id: str) -> dict[str, Any]:
    """Stop a response; answers when its end is stored, and again alike when it has ended."""
    return await _stopped(request, await found(request, response_id))


@page_router.post("/responses/{response_id}/leaving", response={204: None})
async def leaving(request: HttpRequest, response_id: str) -> Any:
    """The page says that it goes away: its readers are not waited for as long."""
    response = await found(request, response_id)
    owner = ownership.current()
    if relay := owner.relay(response.id):
        relay.leaving(settings.PAGEHIDE_GRACE_S)
    elif owner.company:
        owner.company.ring(response.owner, response.id, leaving=True)
    return Status(204, None)


async def _stopped(request: HttpRequest, response: Response) -> dict[str, Any]:
    await stop(ownership.current(), response, _reason(request))
    response = await found(request, response.id)
    return await response_body(response) if _is_api(request) else described(response)


def _reason(request: HttpRequest) -> str:
    return "api" if _is_api(request) else "user"


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith("/v1/")


def _unknown(request: HttpRequest, key: str) -> NewResponse:
    asker = caller(request)
    is_api = _is_api(request)
    return NewResponse(
        user_id=asker.user.pk,
        api_key_id=asker.api_key_id,
        purpose=Response.Purpose.API if is_api else Response.Purpose.CHAT,
        dialect=OPENAI_CHAT if is_api else OPENAI_RESPONSES,
        model="",
        policy="abort",
        stream=True,
        request={},
        prompt_ids=(),
        owner="",
        idempotency_key=key,
    )
