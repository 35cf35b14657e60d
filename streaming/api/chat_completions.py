"""Owns POST /v1/chat/completions and GET /v1/models. Knows no engine."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from streaming import ownership
from streaming.models import Response
from streaming.ownership.ask import Ask
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.policy import ABORT

from .answering import attach_or_start, fingerprint, idempotency_key, policy
from .auth import caller
from .chat_schema import ChatRequest

router = Router()


@router.post("/chat/completions", response={200: dict[str, Any]})
async def create(request: HttpRequest, body: ChatRequest) -> HttpResponse:
    """A model's answer, streamed or whole."""
    asker = caller(request)
    include_usage = bool(body.stream_options and body.stream_options.include_usage)
    ask = Ask(
        user_id=asker.user.pk,
        api_key_id=asker.api_key_id,
        purpose=Response.Purpose.API,
        dialect=OPENAI_CHAT,
        stream=body.stream,
        model=body.model,
        messages=[message.plain() for message in body.messages],
        policy=policy(request, ABORT),
        max_tokens=body.limit_tokens,
        stops=body.stops,
        sampling=body.sampling(),
        options={"include_usage": include_usage},
        idempotency_key=idempotency_key(request),
        request_sha256=fingerprint(body.model_dump()),
    )
    return await attach_or_start(request, ask)


@router.get("/models", response=dict[str, Any])
async def models(request: HttpRequest) -> dict[str, Any]:
    """The models that can be asked for."""
    rows = {row.model: row for row in await ownership.current().pool.rows()}
    return {
        "object": "list",
        "data": [
            {
                "id": name,
                "object": "model",
                "created": int(row.created_at.timestamp()),
                "owned_by": "chatsite",
                "max_model_len": row.context_tokens,
            }
            for name, row in rows.items()
        ],
    }
