"""The wires we speak to readers, each a pure encoder of stored events."""

from collections.abc import Callable

from .anthropic import AnthropicEncoder
from .base import Encoder, Head
from .openai_chat import OpenAIChatEncoder
from .openai_responses import OpenAIResponsesEncoder

OPENAI_CHAT = "openai_chat"
OPENAI_RESPONSES = "openai_responses"
ANTHROPIC = "anthropic"

#: By the name that stands in a response's row and in ``?dialect=``.
ENCODERS: dict[str, Callable[[Head], Encoder]] = {
    OPENAI_CHAT: OpenAIChatEncoder,
    OPENAI_RESPONSES: OpenAIResponsesEncoder,
    ANTHROPIC: AnthropicEncoder,
}


def encoder_for(dialect: str, head: Head, starting_after: int = 0) -> Encoder:
    """A fresh encoder for one connection. ``starting_after`` is a number of the responses dialect, 0 for none."""
    if dialect == OPENAI_RESPONSES:
        return OpenAIResponsesEncoder(head, starting_after)
    return ENCODERS[dialect](head)
