"""Owns fitting a request to a model: prompt ids within the context, max_tokens clamped. Starts nothing."""

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from streaming import models
from streaming.engine.prompt import HopelesslyLong, PromptError, carry_on, render_prompt
from streaming.engine.registry import bundle_for, engine_for
from streaming.engine.tokenizer import TokenizerBundle
from streaming.engine.tools_in_prompt import with_tools
from streaming.protocol.markers import Markers, markers_named

from .ask import Ask, Refused
from .constraints import constraint

INLINE_CHARS = 8_000
ANSWER_SHARE = 4
#: Long prompts one at a time: two megabytes take seconds, and hundreds of megabytes of memory.
_long_prompts = ThreadPoolExecutor(1, thread_name_prefix="long-prompts")


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt ids that fit, how many tokens may be generated after them, and the schema these are held to.

    ``messages`` are the turns that the ids are of, for engines that take those.
    """

    token_ids: Sequence[int]
    max_tokens: int
    messages: Sequence[Mapping[str, Any]]
    json_schema: Mapping[str, Any] | None = None


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
    engine = engine_for(row)
    if ask.continues and not engine.can_continue:
        message = f"continues: the engine of {ask.model!r} cannot write on from a text; ask again instead"
        raise Refused(400, "invalid_request", message, param="continues")
    json_schema = constraint(ask, engine, row.options)
    try:
        messages, token_ids = await _tokenized(ask, row, row.context_tokens - 1)
    except HopelesslyLong as error:
        raise _too_long(row, str(error)) from None
    left = row.context_tokens - len(token_ids)
    if left < 1:
        raise _too_long(row, str(len(token_ids)))
    max_tokens = min(ask.max_tokens or left, left, most_tokens)
    _check_sampling(ask.sampling, max_tokens, row)
    return Prompt(token_ids, max_tokens, messages, json_schema)


def _too_long(row: models.Engine, got: str) -> Refused:
    message = f"messages: the prompt must be below the model's context of {row.context_tokens} tokens (got {got})"
    return Refused(400, "context_length_exceeded", message, param="messages")


async def tokenized(ask: Ask, row: models.Engine) -> list[int]:
    """The prompt ids, whether they fit or not. Raises Refused when the messages make no prompt."""
    return (await _tokenized(ask, row, None))[1]


async def fitted(ask: Ask, row: models.Engine) -> tuple[Sequence[Mapping[str, Any]], list[int] | None]:
    """The turns that stay in the prompt, and their ids where these leave room for an answer.

    Raises Refused when the messages make no prompt.
    """
    try:
        turns, token_ids = await _tokenized(ask, row, row.context_tokens - 1)
    except HopelesslyLong:
        return ask.messages, None
    return turns, token_ids if len(token_ids) < row.context_tokens else None


async def _tokenized(
    ask: Ask, row: models.Engine, most_tokens: int | None
) -> tuple[Sequence[Mapping[str, Any]], list[int]]:
    size_chars = sum(len(str(message)) for message in ask.messages)
    if size_chars + len(str(ask.tools)) <= INLINE_CHARS:
        return _tokenize(ask, row, most_tokens)
    return await asyncio.get_running_loop().run_in_executor(_long_prompts, _tokenize, ask, row, most_tokens)


def _check_sampling(sampling: Mapping[str, Any], max_tokens: int, row: models.Engine) -> None:
    """What is known to break engines: more tokens at least than at most, and ids that no vocabulary has."""
    if sampling.get("min_tokens", 0) > max_tokens:
        message = f"min_tokens: at most {max_tokens}, the answer's cap (got {sampling['min_tokens']})"
        raise Refused(400, "invalid_request", message, param="min_tokens")
    if bias := sampling.get("logit_bias"):
        known = bundle_for(row).tokenizer.get_vocab_size()
        if (highest := max(bias)) >= known:
            message = f"logit_bias: token ids below {known}, the model's vocabulary (got {highest})"
            raise Refused(400, "invalid_request", message, param="logit_bias")


def _tokenize(ask: Ask, row: models.Engine, most_tokens: int | None) -> tuple[Sequence[Mapping[str, Any]], list[int]]:
    """The turns that stay, and their ids. Raises HopelesslyLong for more than ``most_tokens``, where that is plain."""
    bundle, markers = bundle_for(row), markers_named(row.options.get("markers", "none"))

    told = [turn for turn in ask.messages[:1] if turn["role"] == "system"]

    def since(first: int) -> Sequence[Mapping[str, Any]]:
        return [*told, *ask.messages[max(first, len(told)) :]]

    def without(first: int) -> list[int]:
        return _render_all(bundle, replace(ask, messages=since(first)), markers, most_tokens)

    room = row.context_tokens - row.context_tokens // ANSWER_SHARE

    def fits(first: int) -> bool:
        try:
            return len(without(first)) <= room
        except HopelesslyLong:
            return False

    later = [index for index, turn in enumerate(ask.messages) if index > len(told) and turn["role"] == "user"]
    if ask.conversation_id is None or not later:
        return ask.messages, without(0)
    with suppress(HopelesslyLong):
        token_ids = without(0)
        if len(token_ids) <= room:
            return ask.messages, token_ids
    # Each try costs a whole rendering, so it is not one for each exchange that has to go.
    first = bisect_left(later, True, key=fits)
    kept = later[min(first, len(later) - 1)]
    return since(kept), without(kept)


def _render_all(bundle: TokenizerBundle, ask: Ask, markers: Markers | None, most_tokens: int | None) -> list[int]:
    """With all that an API caller may give a template; one that has no place for tools gets them as text."""
    turns, cut = (ask.messages[:-1], ask.messages[-1]["content"]) if ask.continues else (ask.messages, "")
    messages, tools = with_tools(bundle, turns, ask.tools, markers)
    thinking = {} if ask.thinking is None else {"enable_thinking": ask.thinking}
    variables = {"variables": {**tools, **thinking}} if tools or thinking else {}
    token_ids = _render(bundle, messages, most_tokens=most_tokens, **variables)
    return carry_on(bundle, token_ids, cut)


def _render(bundle: TokenizerBundle, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
    try:
        return render_prompt(bundle, messages, **options)
    except PromptError as error:
        raise Refused(400, "invalid_request", f"messages: {error}", param="messages") from error
