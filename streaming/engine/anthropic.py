"""Owns the requests of Anthropic's messages wire."""

from collections.abc import Mapping, Sequence
from typing import Any

from streaming.engine.api_key import key_of
from streaming.engine.base import GenerateRequest, Sampling
from streaming.engine.chat_endpoint import ChatEndpoint
from streaming.engine.prompt import text_of
from streaming.engine.upstream import Upstream
from streaming.protocol.tool_calls import parsed_arguments
from streaming.protocol.upstream import AnthropicMessages

VERSION = "2023-06-01"
MOST_TEMPERATURE = 1.0


class AnthropicEngine(ChatEndpoint):
    """``url`` is what the SDK calls base URL: ``https://api.anthropic.com``."""

    path = "/v1/messages"
    health_path = "/v1/models"

    def __init__(self, url: str, model: str, options: Mapping[str, Any], capabilities: Mapping[str, Any]):
        key = key_of(options)
        headers = {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})
        super().__init__(Upstream(url, headers), model, options, capabilities)

    def body(self, request: GenerateRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [turn_of(message) for message in request.messages if message.get("role") != "system"],
            "max_tokens": request.sampling.max_tokens,
            "stream": True,
        }
        if system := system_of(request.messages):
            body["system"] = system
        return body | chosen(request.sampling) | tools_of(request)

    def reading(self, request: GenerateRequest) -> AnthropicMessages:
        return AnthropicMessages(request.sampling.max_tokens)


def system_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """What stands for the system role, which is no turn here."""
    texts = [text_of(message.get("content")) for message in messages if message.get("role") == "system"]
    return "\n\n".join(text for text in texts if text)


def turn_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """A turn in this wire's words: calls and their results are blocks of content."""
    role, text = message.get("role"), text_of(message.get("content"))
    if role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": text}
        return {"role": "user", "content": [result]}
    calls = [call_block(call) for call in message.get("tool_calls") or ()]
    if not calls:
        return {"role": role, "content": text}
    return {"role": role, "content": [*([{"type": "text", "text": text}] if text else []), *calls]}


def call_block(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = parsed_arguments(function["arguments"]) or {}
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def tools_of(request: GenerateRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    named: dict[str, Any] = {"type": "tool", "name": request.tool_choice}
    choice = {"auto": {"type": "auto"}, "required": {"type": "any"}}.get(request.tool_choice, named)
    if request.one_call:
        choice = choice | {"disable_parallel_tool_use": True}
    return {"tools": [tool_of(tool["function"]) for tool in request.tools], "tool_choice": choice}


def tool_of(function: Mapping[str, Any]) -> dict[str, Any]:
    described = {"description": function["description"]} if function.get("description") else {}
    schema = function.get("parameters") or {"type": "object"}
    return {"name": function["name"], **described, "input_schema": schema}


def chosen(sampling: Sampling) -> dict[str, Any]:
    """The sampling parameters that the wire knows. Newer models refuse a temperature and a top_p together."""
    given: dict[str, Any] = {}
    if sampling.temperature is not None:
        given["temperature"] = min(sampling.temperature, MOST_TEMPERATURE)
    elif sampling.top_p is not None:
        given["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        given["top_k"] = sampling.top_k
    # Stop strings of white space are refused, and with min_tokens one counts only later: our holdback does both.
    if not sampling.min_tokens and (stops := [stop for stop in sampling.stop if stop.strip()]):
        given["stop_sequences"] = stops
    return given
