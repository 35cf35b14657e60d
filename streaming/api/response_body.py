"""Owns a stored response as one JSON object: the official one, with our own fields beside it. Streams nothing."""

from collections.abc import Mapping
from typing import Any

from streaming.models import Response
from streaming.protocol.dialects import OPENAI_RESPONSES, encoder_for
from streaming.protocol.events import TEXT
from streaming.store import heads, remains, threads


async def asked_of(response: Response) -> Mapping[str, Any] | None:
    """The fields of its request that the response object repeats; asks only where it can have some."""
    return await threads.run(heads.asked, response) if heads.repeats_request(response) else None


async def response_body(response: Response) -> dict[str, Any]:
    """The official object, as far as the log goes by now. What only we have comes from the row."""
    events = await threads.run(remains.read, response)
    body = encoder_for(OPENAI_RESPONSES, heads.head(response, await asked_of(response))).body(events)
    if not events:
        body["status"] = "queued"
    own = described(response)
    if response.end_state is None:
        own["output_text"] = "".join(event.payload["text"] for event in events if event.kind == TEXT)
    usage = {**own["usage"], **(body["usage"] or {})} if response.end_state is not None else None
    # ``error`` is the official one: set only where the status is failed.
    return {**own, **body, "usage": usage, "stop": own["stop"]}


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
        "stop": stop_figures(response),
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
        "duration_ms": duration_ms(response),
        "attempts": len(response.attempts),
    }


def duration_ms(response: Response) -> float | None:
    """From its creation to its end; None before that."""
    return (response.ended_at - response.created_at).total_seconds() * 1000 if response.ended_at else None


def stop_figures(response: Response) -> dict[str, Any] | None:
    """What stopping it took, or takes; None where no person asked."""
    if response.stop_requested_at is None:
        return None
    return {
        "stop_ms": response.stop_ms,
        "generated_tokens": response.generated_tokens,
        "sent_tokens": response.sent_tokens,
        "tokens_after_stop": response.tokens_after_stop,
        "abort_proven": response.abort_proven,
    }
