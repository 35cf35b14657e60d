"""Owns the response object of the OpenAI responses dialect with our extension fields. Does not write frames."""

from collections.abc import Mapping
from typing import Any

from ..end_state import ABANDONED, CANCELLED, COMPLETED
from ..usage import count
from .base import Head, error_object
from .output_items import Item, OutputItems

_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


def terminal_name(ended: Mapping[str, Any]) -> str:
    """The type of the closing event."""
    status = _status(ended)
    return f"response.{'incomplete' if status == 'cancelled' else status}"


def item_status(item: Item, ended: Mapping[str, Any]) -> str:
    """That of an output item when the response has ended."""
    return "completed" if item.is_done else _open_status(_status(ended))


def response_object(head: Head, output: OutputItems, ended: Mapping[str, Any] | None) -> dict[str, Any]:
    """The response as it stands; ``ended`` is None while it runs."""
    status = _status(ended) if ended else "in_progress"
    end = ended or {}
    incomplete_reason = _INCOMPLETE_REASONS.get(end.get("finish_reason") or "")
    return {
        "id": head.response_id,
        "object": "response",
        "created_at": head.created_s,
        "status": status,
        "model": head.model,
        "error": _error(ended) if ended and status == "failed" else None,
        "incomplete_details": {"reason": incomplete_reason} if incomplete_reason else None,
        "instructions": None,
        "metadata": {},
        "output": output.to_objects(_open_status(status)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
        "usage": usage_object(ended["usage"], output.reasoning_tokens) if ended else None,
        **{name: end.get(name) for name in ("end_state", "end_reason", "stop", "output_error")},
        **_chat_ids(head),
        **head.asked,
    }


def usage_object(usage: Mapping[str, Any], reasoning_tokens: int) -> dict[str, Any]:
    """The wire's usage, from the ended event's, with ours beside it."""
    prompt, completion = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": count(usage, "cached_tokens"), "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": prompt + completion,
        "generated_tokens": count(usage, "generated_tokens"),
        "sent_tokens": count(usage, "sent_tokens"),
    }


def _open_status(status: str) -> str:
    """Of items that are not done, by the response's."""
    return status if status in ("in_progress", "completed") else "incomplete"


def _status(ended: Mapping[str, Any]) -> str:
    if ended["end_state"] == COMPLETED:
        return "incomplete" if ended["finish_reason"] in _INCOMPLETE_REASONS else "completed"
    return "cancelled" if ended["end_state"] in (CANCELLED, ABANDONED) else "failed"


def _error(ended: Mapping[str, Any]) -> dict[str, Any]:
    error = error_object(ended)
    return {"code": error["code"], "message": error["message"]}


def _chat_ids(head: Head) -> dict[str, str]:
    ids = {
        "conversation_id": head.conversation_id,
        "user_message_id": head.user_message_id,
        "message_id": head.message_id,
    }
    return {name: value for name, value in ids.items() if value is not None}
