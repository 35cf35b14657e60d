"""Owns POST /v1/chat/completions and GET /v1/models. Knows no engine."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from streaming import ownership
from streaming.protocol.dialects import OPENAI_CHAT

from .asking import answer, ask_of
from .auth import caller
from .chat_schema import IGNORED, ChatRequest

router = Router()


@router.post("/chat/completions", response={200: dict[str, Any]}, summary="Ask, as chat completions")
async def create(request: HttpRequest, body: ChatRequest) -> HttpResponse:
    """A model's answer, streamed or whole."""
    options = {"include_usage": bool(body.stream_options and body.stream_options.include_usage)}
    messages = [message.plain() for message in body.messages]
    ask = ask_of(request, body, messages, OPENAI_CHAT, options=options, no_store=body.store is False)
    return await answer(request, ask, body, IGNORED)


@router.get("/models", response=dict[str, Any], tags=["Models"], summary="List models")
async def models(request: HttpRequest) -> dict[str, Any]:
    """The models that the caller can ask for; those of which an engine is healthy now come first."""
    owner = ownership.current()
    allowed = await owner.quotas.allowed(caller(request).user.pk, caller(request).api_key_id)
    offered = await owner.pool.on_offer()
    return {
        "object": "list",
        "data": [
            {
                "id": name,
                "object": "model",
                "created": min(int(row.created_at.timestamp()) for row in rows),
                "owned_by": "chatsite",
                "max_model_len": min(row.context_tokens for row in rows),
            }
            for name, rows in offered.items()
            if allowed.has(name)
        ],
    }
