"""Owns POST /v1/messages, its counting of tokens, and that refusals there are in Anthropic's words. Knows no engine."""

import json
import re
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import async_only_middleware
from ninja import Router

from streaming import ownership
from streaming.ownership.ask import Ask, Refused
from streaming.ownership.prompting import tokenized
from streaming.ownership.start import check
from streaming.protocol.dialects import ANTHROPIC
from streaming.protocol.dialects.anthropic_errors import failure
from streaming.protocol.policy import ABORT, Policy

from . import refusals
from .anthropic_schema import IGNORED, AnthropicRequest, CountRequest
from .asking import answer, ask_of
from .auth import caller
from .errors import ApiError

router = Router()

PREFIX = "/v1/messages"
VERSION = re.compile(r"20\d\d-\d\d-\d\d", re.ASCII)


@router.post("/messages", response={200: dict[str, Any]}, summary="Ask, as messages")
async def create(request: HttpRequest, body: AnthropicRequest) -> HttpResponse:
    """A model's answer, streamed or whole."""
    _check_version(request)
    return await answer(request, ask_of(request, body, body.turns, ANTHROPIC), body, IGNORED)


@router.post("/messages/count_tokens", response=dict[str, int], summary="Count the tokens of a request")
async def count_tokens(request: HttpRequest, body: CountRequest) -> dict[str, int]:
    """How many tokens the prompt of such a message has. Nothing is generated or stored."""
    _check_version(request)
    ask = Ask(
        user_id=caller(request).user.pk,
        purpose="api",
        dialect=ANTHROPIC,
        stream=False,
        model=body.model,
        messages=body.turns,
        policy=Policy(ABORT, 0.0),
        tools=body.all_tools,
        thinking=body.wants_thinking,
    )
    try:
        row = await check(ownership.current(), ask)
        return {"input_tokens": len(await tokenized(ask, row))}
    except Refused as refused:
        raise refusals.as_error(refused) from None


def _check_version(request: HttpRequest) -> None:
    given = request.headers.get("anthropic-version", "")
    if not VERSION.fullmatch(given):
        raise ApiError(
            400,
            f"anthropic-version: this header is required, as in 2023-06-01 (got {given[:40]!r})",
            code="invalid_request",
            param="anthropic-version",
        )


@async_only_middleware
def in_their_words(get_response: Any) -> Any:
    """Whoever refuses a request for a message, the refusal has their shape and status."""

    async def middleware(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await get_response(request)
        if response.status_code < 400 or not request.path.startswith(PREFIX) or not isinstance(response, HttpResponse):
            return response
        status, body = failure(response.status_code, json.loads(response.content)["error"])
        kept = {name: value for name, value in response.headers.items() if not name.lower().startswith("content-")}
        return JsonResponse(body, status=status, headers=kept)

    return middleware
