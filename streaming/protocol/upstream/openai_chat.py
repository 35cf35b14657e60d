"""Owns the meaning of OpenAI's chat completion chunks, as many servers speak them. Does no I/O."""

import json
from collections.abc import Mapping
from typing import Any

from ..engine_output import EngineOutput, EngineUsage, ToolFragment
from ..sse_parser import ServerSentEvent
from .json_events import UpstreamFailure, count_at, finish_reason_of, label_at, object_at, text_at
from .reading import Reading

DONE = "[DONE]"
#: Ours for theirs; one that is missing here is a failure, not a "stop".
FINISH_REASONS = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "abort": "abort",
    "cancelled": "abort",
    "insufficient_system_resource": "abort",
}
#: Where servers put reasoning; some say it under two names.
REASONING_NAMES = ("reasoning_content", "reasoning")


class OpenAIChat(Reading):
    """Reads one answer. Of several choices only the first is looked at: more are never asked for."""

    def _is_last(self, event: ServerSentEvent) -> bool:
        return event.data.strip() == DONE

    def _take(self, fields: dict[str, Any]) -> EngineOutput | None:
        usage = usage_of(fields.get("usage"))
        choice = first_choice(fields.get("choices"))
        if choice is None or self.finish_reason is not None:
            return self._output(usage=usage)
        delta = object_at(choice, "delta")
        output = self._output(
            text=text_at(delta, "content"),
            reasoning=text_at(delta, REASONING_NAMES[0]) or text_at(delta, REASONING_NAMES[1]),
            refusal=text_at(delta, "refusal"),
            tool_calls=fragments_of(delta) if "tool_calls" in delta or "function_call" in delta else (),
            usage=usage,
        )
        try:
            self.finish_reason = finish_reason_of(choice.get("finish_reason"), FINISH_REASONS)
        except UpstreamFailure as failure:
            self.failure = failure  # what came with it is shown all the same
        return output


def first_choice(choices: object) -> dict[str, Any] | None:
    if type(choices) is not list:
        return None
    for choice in choices:
        if type(choice) is dict and not choice.get("index"):
            return choice
    return None


def usage_of(value: object) -> EngineUsage | None:
    if type(value) is not dict:
        return None
    cached = count_at(object_at(value, "prompt_tokens_details"), "cached_tokens")
    if cached is None:
        cached = count_at(value, "prompt_cache_hit_tokens")
    return EngineUsage(count_at(value, "prompt_tokens"), count_at(value, "completion_tokens"), cached)


def fragments_of(delta: Mapping[str, Any]) -> tuple[ToolFragment, ...]:
    """The pieces of tool calls; ``function_call`` is how one call was said before there could be several."""
    calls = delta.get("tool_calls")
    found = [_fragment(call, object_at(call, "function")) for call in calls or () if type(call) is dict]
    if type(delta.get("function_call")) is dict:
        found.append(_fragment({}, delta["function_call"]))
    return tuple(found)


def _fragment(call: Mapping[str, Any], function: Mapping[str, Any]) -> ToolFragment:
    arguments = function.get("arguments")
    spelled = json.dumps(arguments) if type(arguments) is dict else text_at(function, "arguments")
    return ToolFragment(count_at(call, "index"), label_at(call, "id"), label_at(function, "name"), spelled)
