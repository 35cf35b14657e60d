"""Owns turning messages into prompt ids, and carrying on from shown text. Talks to no engine."""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from streaming.engine.chat_template import TemplateRefusal
from streaming.engine.tokenizer import TokenizerBundle, one_line

#: How many ids before a join decide how the first characters after it are cut.
JOIN_CONTEXT_TOKENS = 8


class PromptError(ValueError):
    """Messages that make no prompt. The text is safe to show to the caller."""


class HopelesslyLong(Exception):
    """A prompt that need not be cut into tokens to be known as too long: it has ``least_tokens`` of them or more."""

    def __init__(self, least_tokens: int):
        super().__init__(f"at least {least_tokens} tokens")
        self.least_tokens = least_tokens


def render_prompt(
    bundle: TokenizerBundle,
    messages: Sequence[Mapping[str, Any]],
    *,
    variables: Mapping[str, Any] | None = None,
    most_tokens: int | None = None,
) -> list[int]:
    """The ids of the messages in the model's chat format, ready for its answer.

    ``variables`` are further names for the template (tools, enable_thinking); what is in them
    counts as user text too. Raises PromptError, and HopelesslyLong instead of cutting into tokens what must be
    more than ``most_tokens``.
    """
    if bundle.chat_template is None:
        raise PromptError("this model has no chat template")
    hidden = [hide_message(bundle, message) for message in messages]
    names = {name: hide(bundle, value) for name, value in (variables or {}).items()}
    try:
        text = bundle.chat_template.render(
            **bundle.special_tokens, **names, messages=hidden, add_generation_prompt=True
        )
    except TemplateRefusal as error:
        raise PromptError(f"the model's chat template refused the messages: {one_line(error)}") from error
    except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise PromptError("the model's chat template cannot render these messages") from error
    if most_tokens is not None and (least := bundle.vocabulary.least_tokens(text)) > most_tokens:
        raise HopelesslyLong(least)
    return encode(bundle, bundle.vocabulary.reveal(text))


def hide_message(bundle: TokenizerBundle, message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as a template gets it: content as one text, nothing in it that reads as a control token."""
    whole = {**message, "content": text_of(message.get("content"))}
    special_only = message.get("role") == "assistant"
    return {key: hide(bundle, value, special_only) for key, value in whole.items()}


def hide(bundle: TokenizerBundle, value: Any, special_only: bool = False) -> Any:
    """Any JSON value with the control tokens in its texts hidden."""
    if isinstance(value, str):
        return bundle.vocabulary.hide(value, special_only)
    if isinstance(value, Mapping):
        return {hide(bundle, key, special_only): hide(bundle, part, special_only) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide(bundle, part, special_only) for part in value]
    return value


def text_of(content: Any) -> str:
    """A message's content as one text: a string, a list of text parts, or nothing."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        raise PromptError("content must be a string or a list of text parts")
    return "".join(_part_text(part) for part in content)


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping) and part.get("type") in ("text", "input_text", "output_text"):
        text = part.get("text")
        if isinstance(text, str):
            return text
    raise PromptError("content parts must be of type text")


def encode(bundle: TokenizerBundle, text: str) -> list[int]:
    """Ids of a text in which only revealed control tokens count."""
    try:
        return bundle.vocabulary.encode(text)
    except (UnicodeEncodeError, TypeError) as error:
        raise PromptError("the text holds a lone surrogate, which is no character") from error


def count_tokens(bundle: TokenizerBundle, text: str) -> int:
    """How many tokens the text is, taken as ordinary text."""
    return len(encode(bundle, text))


def carry_on(bundle: TokenizerBundle, prompt_ids: Sequence[int], shown_text: str) -> list[int]:
    """The prompt from which an engine goes on after ``shown_text``, for engines that gave us only text.

    Some vocabularies put a space before a text that is encoded alone: then it is encoded as
    what stands in the middle of a text, if that decodes, after the prompt, to exactly the shown text.
    """
    prompt = list(prompt_ids)
    if not shown_text:
        return prompt
    alone = encode(bundle, shown_text)
    if _decodes_to(bundle, prompt, alone, shown_text):
        return prompt + alone
    behind = _encode_behind_newline(bundle, shown_text)
    return prompt + (behind if _decodes_to(bundle, prompt, behind, shown_text) else alone)


def _encode_behind_newline(bundle: TokenizerBundle, text: str) -> list[int]:
    """The ids of a text that does not stand at the start; a newline is a token of its own everywhere."""
    newline = encode(bundle, "\n")
    return encode(bundle, "\n" + text)[len(newline) :]


def _decodes_to(bundle: TokenizerBundle, prompt: list[int], ids: list[int], text: str) -> bool:
    before = prompt[-JOIN_CONTEXT_TOKENS:]
    decode = bundle.tokenizer.decode
    joined: str = decode(before + ids, skip_special_tokens=False)
    alone: str = decode(before, skip_special_tokens=False)
    return joined == alone + text
