"""Owns what an encoder has to know of a stored response besides its events. Reads no log and encodes nothing."""

from collections.abc import Mapping
from typing import Any

from streaming.models import Response
from streaming.protocol.dialects import OPENAI_RESPONSES
from streaming.protocol.dialects.base import Head

from . import inputs


def head(response: Response, asked: Mapping[str, Any] | None = None) -> Head:
    """Of the row, and of what ``asked`` found."""
    return Head(
        response_id=response.id,
        model=response.model,
        created_s=int(response.created_at.timestamp()),
        include_usage=bool(response.options.get("include_usage")),
        prompt_tokens=response.prompt_tokens or 0,
        asked=asked or {},
        conversation_id=response.conversation_id,
        message_id=response.message_id,
        user_message_id=response.message.parent_id if response.message else None,
    )


def repeats_request(response: Response) -> bool:
    """Whether its object may repeat fields of the request: then ``asked`` is worth a query."""
    return response.dialect == OPENAI_RESPONSES and response.purpose != Response.Purpose.CHAT


def asked(response: Response) -> Mapping[str, Any] | None:
    """The fields of its request that the response object repeats, where it can have some."""
    return inputs.asked(response.id) if repeats_request(response) else None
