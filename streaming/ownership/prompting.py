"""Owns fitting a request to a model: prompt ids within the context, max_tokens clamped. Starts nothing."""

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streaming import models
from streaming.engine.prompt import PromptError, render_prompt
from streaming.engine.registry import bundle_for
from streaming.engine.tokenizer import TokenizerBundle

from .ask import Ask, Refused

INLINE_CHARS = 8_000
ANSWER_SHARE = 4


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt ids that fit, and how many tokens may be generated after them."""

    token_ids: Sequence[int]
    max_tokens: int


async def fit(ask: Ask, row: models.Engine, most_tokens: int) -> Prompt:
    """Render and tokenize for the engine row; ``most_tokens`` is the cap on an answer.

    Large prompts are tokenized off the event loop. Raises Refused when it does not fit or cannot be rendered.
    """
    if ask.max_tokens is not None and ask.max_tokens > row.context_tokens:
        raise Refused(
            400,
            "invalid_request",
            f"max_tokens: at most {row.context_tokens}, the model's context (got {ask.max_tokens})",
            param="max_tokens",
        )
    size_chars = sum(len(str(message.get("content"))) for message in ask.messages)
    if size_chars <= INLINE_CHARS:
        token_ids = _tokenize(ask, row)
    else:
        token_ids = await asyncio.to_thread(_tokenize, ask, row)
    left = row.context_tokens - len(token_ids)
    if left < 1:
        raise Refused(
            400,
            "context_length_exceeded",
            f"messages: the prompt must be below the model's context of {row.context_tokens} tokens"
            f" (got {len(token_ids)})",
            param="messages",
        )
    return Prompt(token_ids, min(ask.max_tokens or left, left, most_tokens))


def _tokenize(ask: Ask, row: models.Engine) -> list[int]:
    bundle = bundle_for(row)
    token_ids = _render(bundle, ask.messages)
    if ask.conversation_id is None:
        return token_ids
    room = row.context_tokens - row.context_tokens // ANSWER_SHARE
    later = [index for index, message in enumerate(ask.messages) if index and message["role"] == "user"]
    if len(token_ids) <= room or not later:
        return token_ids
    # Each try costs a whole rendering, so it is not one for each exchange that has to go.
    first = bisect_left(later, True, key=lambda index: len(_render(bundle, ask.messages[index:])) <= room)
    return _render(bundle, ask.messages[later[min(first, len(later) - 1)] :])


def _render(bundle: TokenizerBundle, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    try:
        return render_prompt(bundle, messages)
    except PromptError as error:
        raise Refused(400, "invalid_request", f"messages: {error}", param="messages") from error
