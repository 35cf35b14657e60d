"""Owns storing what a known caller was refused before a stream: a response ended ``rejected``. Refuses nothing."""

import logging
import re
import time
from collections import Counter
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import async_only_middleware

from streaming import ownership
from streaming.metrics.user_hash import user_hash
from streaming.models import ApiKey, Response
from streaming.ownership.ask import Refused
from streaming.protocol.dialects import ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES
from streaming.protocol.end_state import REFUSED, decide
from streaming.store import creation, threads
from streaming.store.creation import NewResponse

from .errors import ApiError
from .limit_headers import limit_headers, retry_headers

logger = logging.getLogger(__name__)

#: End reasons by the refusal's code where they differ from ``invalid_request``.
REASONS = {
    "model_not_found": "not_found",
    "not_found": "not_found",
    "context_length_exceeded": "context_length",
    "rate_limited": "over_quota",
    "model_not_allowed": "scope",
    "scope": "scope",
    "overloaded": "overloaded",
    "conversation_busy": "conflict",
    "idempotency_key_reused": "conflict",
    "key_revoked": "key_revoked",
    "key_expired": "key_expired",
}

#: The API's paths that ask for an answer, and the dialect of each.
ASKING = {"/v1/chat/completions": OPENAI_CHAT, "/v1/responses": OPENAI_RESPONSES, "/v1/messages": ANTHROPIC}
#: The page's path that does.
PAGE_ASKING = re.compile(r"/api/conversations/[^/]+/messages")

_written: Counter[tuple[int, int]] = Counter()


def as_error(refused: Refused, dialect: str = OPENAI_CHAT) -> ApiError:
    """What the caller is told; limits in the words of the dialect."""
    headers = retry_headers(refused.status, refused.retry_after_s) | limit_headers(dialect, refused.left)
    return ApiError(refused.status, refused.message, code=refused.code, param=refused.param, headers=headers)


@async_only_middleware
def recorder(get_response: Any) -> Any:
    """After a request that asked for an answer and was refused: store it, if it is known who asked."""

    async def middleware(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await get_response(request)
        refused: ApiError | None = getattr(request, "refused", None)
        caller = getattr(request, "auth", None)
        if refused is not None and caller and asks_for_answer(request) and not _comes_again(caller.purpose, refused):
            await record(request, caller.user.pk, caller.api_key_id, refused)
        return response

    return middleware


def _comes_again(purpose: str | None, refused: ApiError) -> bool:
    """A line of a batch that is told to wait is no answer that somebody did not get."""
    return purpose == Response.Purpose.BATCH and refused.status in (429, 503)


def asks_for_answer(request: HttpRequest) -> bool:
    """Whether the request would have started a response."""
    return request.method == "POST" and (request.path in ASKING or PAGE_ASKING.fullmatch(request.path) is not None)


async def record(request: HttpRequest, user_id: int, api_key_id: int | None, refused: ApiError) -> None:
    """Store the refusal, without what the caller sent; at most REJECTED_ROWS_PER_MINUTE of a user."""
    minute = int(time.monotonic() // 60)
    if _written[user_id, minute] >= settings.REJECTED_ROWS_PER_MINUTE:
        logger.warning("refused user %s: %s (not stored, too many this minute)", user_hash(user_id), refused.code)
        return
    for known in [key for key in _written if key[1] != minute]:
        del _written[known]
    _written[user_id, minute] += 1
    body = getattr(request, "json_body", None)
    is_api = request.path.startswith("/v1/")
    reason = REASONS.get(refused.code, "invalid_request")
    try:
        new = NewResponse(
            user_id=user_id,
            api_key_id=api_key_id,
            purpose=_purpose(request),
            dialect=ASKING.get(request.path, OPENAI_RESPONSES),
            model=await _served_model(body),
            policy="abort",
            stream=(isinstance(body, dict) and body.get("stream") is True) or not is_api,
            request={},
            prompt_ids=(),
            owner="",
        )
        await threads.write(creation.reject, new, decide(None, REFUSED, reason, refused.logged_message))
    except DatabaseError as error:
        # The refusal is what counts, also while nothing can be stored.
        logger.warning("refused user %s: %s (not stored: %s)", user_hash(user_id), refused.code, error)


def _purpose(request: HttpRequest) -> str:
    asked_by_task: str | None = getattr(getattr(request, "auth", None), "purpose", None)
    of_root = Response.Purpose.API if request.path.startswith("/v1/") else Response.Purpose.CHAT
    return asked_by_task or of_root


async def _served_model(body: Any) -> str:
    """The model that was asked for, if there is one of that name: any other name is only what the caller wrote."""
    asked = body.get("model") if isinstance(body, dict) else None
    rows = await ownership.current().pool.rows() if isinstance(asked, str) else ()
    return next((row.model for row in rows if row.model == asked), "")


async def record_key(request: HttpRequest, api_key: ApiKey, refused: ApiError) -> None:
    """Store that a key was refused for what it is; the refusal's code is the end reason."""
    if asks_for_answer(request):
        await record(request, api_key.user_id, api_key.pk, refused)
