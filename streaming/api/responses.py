"""Owns reading, following and stopping a response, alike for keys and for the page. Starts none."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from streaming import ownership
from streaming.models import Response
from streaming.ownership.stop import stop
from streaming.protocol.dialects import OPENAI_CHAT, OPENAI_RESPONSES
from streaming.protocol.end_state import STOPPED, decide
from streaming.store import responses, threads
from streaming.store.responses import KeyTaken, NewResponse

from .answering import cursor_of, follow, idempotency_key
from .auth import caller
from .errors import ApiError, deleted

v1_router = Router()
page_router = Router()


async def _found(request: HttpRequest, response_id: str) -> Response:
    response = await threads.run(responses.get, response_id, caller(request).user.pk)
    if response is None:
        raise ApiError(404, "there is no such response", code="not_found")
    return response


# Before the routes with an id: a path is taken by the first that fits.
@v1_router.post("/responses/cancel", response=dict[str, Any])
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
            response = await threads.write(responses.cancel_unknown, _unknown(request, key), end)
        except KeyTaken:
            if (response := await threads.run(responses.by_key, user_id, key)) is None:
                raise deleted() from None
    return await _stopped(request, response)


@v1_router.get("/responses/{response_id}", response=dict[str, Any])
@page_router.get("/responses/{response_id}", response=dict[str, Any])
async def retrieve(request: HttpRequest, response_id: str) -> dict[str, Any]:
    """A response's state, end and usage."""
    return described(await _found(request, response_id))


@v1_router.get("/responses/{response_id}/stream")
@page_router.get("/responses/{response_id}/stream")
async def stream(request: HttpRequest, response_id: str, starting_after: str | None = None) -> HttpResponse:
    """The response's stream, from a cursor on: what was stored, then what comes."""
    response = await _found(request, response_id)
    cursor = await cursor_of(request, response, starting_after)
    return await follow(request, response, cursor=cursor, stream=True)


@v1_router.post("/responses/{response_id}/cancel", response=dict[str, Any])
@page_router.post("/responses/{response_id}/cancel", response=dict[str, Any])
async def cancel(request: HttpRequest, response_id: str) -> dict[str, Any]:
    """Stop a response; answers when its end is stored, and again alike when it has ended."""
    return await _stopped(request, await _found(request, response_id))


@page_router.post("/responses/{response_id}/leaving", response={204: None})
async def leaving(request: HttpRequest, response_id: str) -> Any:
    """The page says that it goes away: its readers are not waited for as long."""
    response = await _found(request, response_id)
    if relay := ownership.current().relay(response.id):
        relay.leaving(settings.PAGEHIDE_GRACE_S)
    return Status(204, None)


async def _stopped(request: HttpRequest, response: Response) -> dict[str, Any]:
    await stop(ownership.current(), response, _reason(request))
    return described(await _found(request, response.id))


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


def described(response: Response) -> dict[str, Any]:
    """A response as JSON: no prompt, no other user's anything."""
    error = {"code": response.error_code, "message": response.error_message} if response.error_code else None
    return {
        "id": response.id,
        "object": "response",
        "created_at": int(response.created_at.timestamp()),
        "model": response.model,
        "state": response.state,
        "end_state": response.end_state,
        "end_reason": response.end_reason or None,
        "finish_reason": response.finish_reason,
        "error": error,
        "output_text": response.output_text,
        "stop": _stop(response),
        "usage": {
            "prompt_tokens": response.prompt_tokens or 0,
            "cached_tokens": response.cached_tokens or 0,
            "completion_tokens": response.completion_tokens,
            "generated_tokens": response.generated_tokens,
            "sent_tokens": response.sent_tokens,
            "delivered_tokens": response.delivered_tokens,
            "wasted_tokens": response.wasted_tokens,
            "total_tokens": (response.prompt_tokens or 0) + response.completion_tokens,
        },
        "ttft_ms": response.ttft_ms,
    }


def _stop(response: Response) -> dict[str, Any] | None:
    if response.stop_requested_at is None:
        return None
    return {
        "stop_ms": response.stop_ms,
        "generated_tokens": response.generated_tokens,
        "sent_tokens": response.sent_tokens,
        "tokens_after_stop": response.tokens_after_stop,
        "abort_proven": response.abort_proven,
    }
