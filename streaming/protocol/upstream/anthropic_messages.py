"""Owns the meaning of Anthropic's message stream events. Does no I/O."""

import json
from collections.abc import Mapping
from typing import Any

from ..engine_output import EngineOutput, EngineUsage, ToolFragment
from .json_events import UpstreamFailure, count_at, finish_reason_of, label_at, object_at, text_at
from .reading import Reading

#: Ours for theirs; one that is missing here is a failure, not a "stop".
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class AnthropicMessages(Reading):
    """Reads one answer. Events and blocks of types that it does not know are passed over, as the wire demands."""

    def _take(self, fields: dict[str, Any]) -> EngineOutput | None:
        kind = fields.get("type")
        if kind == "content_block_delta":
            return None if self.finish_reason else self._delta(fields)
        if kind == "content_block_start":
            return None if self.finish_reason else self._start(fields)
        if kind == "message_delta":
            return self._message_delta(fields)
        if kind == "message_start":
            usage = usage_of(object_at(object_at(fields, "message"), "usage"))
            # Its count of the answer's tokens is that of a beginning: standing alone it would be a wrong report.
            return self._output(usage=EngineUsage(usage.prompt_tokens, None, usage.cached_tokens) if usage else None)
        if kind == "message_stop":
            self.is_over = True
        return None

    def _delta(self, fields: Mapping[str, Any]) -> EngineOutput | None:
        delta = object_at(fields, "delta")
        kind = delta.get("type")
        if kind == "text_delta":
            return self._output(text=text_at(delta, "text"))
        if kind == "thinking_delta":
            return self._output(reasoning=text_at(delta, "thinking"))
        if kind == "input_json_delta":
            fragment = ToolFragment(count_at(fields, "index"), arguments=text_at(delta, "partial_json"))
            return self._output(tool_calls=(fragment,)) if fragment.arguments else None
        return None

    def _start(self, fields: Mapping[str, Any]) -> EngineOutput | None:
        block = object_at(fields, "content_block")
        kind = block.get("type")
        if kind == "text":
            return self._output(text=text_at(block, "text"))
        if kind == "thinking":
            return self._output(reasoning=text_at(block, "thinking"))
        if kind == "tool_use":
            given = object_at(block, "input")  # whole, where a server does not send it in pieces
            call_id, name = label_at(block, "id"), label_at(block, "name")
            fragment = ToolFragment(count_at(fields, "index"), call_id, name, json.dumps(given) if given else "")
            return self._output(tool_calls=(fragment,))
        return None

    def _message_delta(self, fields: Mapping[str, Any]) -> EngineOutput | None:
        output = self._output(usage=usage_of(fields.get("usage")))
        if self.finish_reason is None:
            try:
                self.finish_reason = finish_reason_of(object_at(fields, "delta").get("stop_reason"), FINISH_REASONS)
            except UpstreamFailure as failure:
                self.failure = failure  # the usage that came with it counts all the same
        return output


def usage_of(value: object) -> EngineUsage | None:
    """Counts as we mean them: a prompt's tokens are all of them, also those that a cache had."""
    if type(value) is not dict:
        return None
    cached = count_at(value, "cache_read_input_tokens")
    prompt = count_at(value, "input_tokens")
    if prompt is not None:
        prompt += (cached or 0) + (count_at(value, "cache_creation_input_tokens") or 0)
    return EngineUsage(prompt, count_at(value, "output_tokens"), cached)
