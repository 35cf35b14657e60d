"""Owns how tools, calls and their results stand in messages: as a template wants them, or as text. Renders nothing."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from streaming.engine.prompt import text_of
from streaming.engine.tokenizer import TokenizerBundle
from streaming.protocol import strict_json
from streaming.protocol.markers import HERMES, Markers, spelled_call

#: A tool that no request has: where its name comes out, the template has a place for tools.
_PROBE_NAME = "is_there_a_place_for_tools"
_PROBE = {
    "messages": [{"role": "user", "content": "?"}],
    "tools": [{"type": "function", "function": {"name": _PROBE_NAME, "description": "", "parameters": {}}}],
}
_INSTRUCTION = (
    "You may call these functions, given as JSON, one a line:\n{tools}\n"
    "To call one, write nothing but {example} for each call. The result comes in the next turn."
)
Messages = Sequence[Mapping[str, Any]]


def with_tools(
    bundle: TokenizerBundle, messages: Messages, tools: Messages, markers: Markers | None
) -> tuple[Messages, Mapping[str, Any]]:
    """The messages, and the template's variables for the tools.

    Where the template has no place for tools they are told in a system message, and earlier calls are spelled
    as the model would write them.
    """
    speaks_of_tools = bool(tools) or any("tool_calls" in message or message["role"] == "tool" for message in messages)
    if not speaks_of_tools:
        return messages, {}
    if _has_place(bundle):
        return [_with_parsed_calls(message) for message in messages], {"tools": list(tools)} if tools else {}
    spelling = markers if markers is not None and (markers.calls or markers.bare_calls) else Markers(calls=HERMES)
    told = [_as_text(message, spelling) for message in messages]
    return (_told_of(told, tools, spelling) if tools else told), {}


def _has_place(bundle: TokenizerBundle) -> bool:
    if bundle.chat_template is None:
        return False
    try:
        rendered = bundle.chat_template.render(**bundle.special_tokens, **_PROBE, add_generation_prompt=True)
    except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
        return False
    return _PROBE_NAME in rendered


def _with_parsed_calls(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Templates write arguments as JSON themselves: a text would come out quoted."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{**call, "function": _parsed(call["function"])} for call in calls]}


def _parsed(function: Mapping[str, Any]) -> Mapping[str, Any]:
    # What a template can write again: not everything that JSON spells is text, or bears to be walked through.
    try:
        arguments = strict_json.parse(function["arguments"].encode())
    except ValueError:
        return function
    return {**function, "arguments": arguments} if isinstance(arguments, dict) else function


def _as_text(message: Mapping[str, Any], markers: Markers) -> Mapping[str, Any]:
    content = text_of(message.get("content"))
    if message["role"] == "tool":
        # What a tool found may hold the closing tag; in JSON, which most give, this is the same text.
        content = content.replace("</tool_response", "<\\/tool_response")
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>"}
    calls = message.get("tool_calls")
    if not calls:
        return message
    spelled = "".join(spelled_call(markers, call["function"]["name"], call["function"]["arguments"]) for call in calls)
    return {"role": message["role"], "content": content + spelled}


def _told_of(messages: Messages, tools: Messages, markers: Markers) -> Messages:
    lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    example = spelled_call(markers, "NAME", "{ARGUMENTS}").strip("; \n")
    instruction = _INSTRUCTION.format(tools=lines, example=example)
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{text_of(messages[0].get('content'))}\n\n{instruction}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]
