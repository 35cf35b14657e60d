"""Owns the OpenAI chat completions dialect: chunks and the completion object. Knows no connection, row or request."""

from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from ..end_state import COMPLETED
from ..events import ENDED, REASONING, REFUSAL, STARTED, TEXT, TOOL_CALL, Event, calls_of, joined_payload
from ..sse import checked_field, frame
from ..usage import count
from . import base
from .base import Head, dumps

#: Where the text of a delta goes; ``reasoning_content`` is what open servers and clients use.
_FIELDS = {TEXT: "content", REASONING: "reasoning_content", REFUSAL: "refusal"}


class OpenAIChatEncoder:
    """Encodes one response as chat completion chunks. Every chunk stands alone, so there is no state.

    What a text chunk has before and after its text is written once, here; a steady stream of
    text costs one escape and one join per frame.
    """

    def __init__(self, head: Head) -> None:
        self._head = head
        self._id = f"id: {checked_field(head.response_id)}:"
        open_chunk = f'{{"id":{quote(head.response_id)},"object":"chat.completion.chunk","created":{head.created_s}'
        self._before = f'{open_chunk},"model":{quote(head.model)},"choices":['
        self._after = '],"usage":null}' if head.include_usage else "]}"
        self._deltas = {
            kind: f'\ndata: {self._before}{{"index":0,"delta":{{"{field}":' for kind, field in _FIELDS.items()
        }
        self._delta_end = f'}},"logprobs":null,"finish_reason":null}}{self._after}\n\n'

    def fold(self, events: Sequence[Event]) -> None:
        """Nothing to remember."""

    def encode(self, events: Sequence[Event]) -> bytes:
        """The chunks of these events; kinds that chat completions do not have give none."""
        if len(events) == 1 and events[0].kind == TEXT:
            return self._delta(events).encode("ascii")
        return "".join([self._group(group) for group in base.groups(events)]).encode("ascii")

    def ending(self, events: Sequence[Event]) -> Iterator[bytes]:
        """Nothing is repeated there."""
        yield self.encode(events)

    def body(self, events: Sequence[Event]) -> dict[str, Any]:
        """The ``chat.completion``, or an error object when the response did not complete."""
        ended = base.ended_payload(events)
        assert ended is not None, "a completion object needs the whole log"
        if ended["end_state"] != COMPLETED:
            return {"error": base.error_object(ended)}
        message: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
        for kind, field in _FIELDS.items():
            text = base.text_of([event for event in events if event.kind == kind])
            if text:
                message[field] = text
        calls = calls_of(events)
        if calls:
            message |= {"content": message["content"] or None, "tool_calls": [_call_object(call) for call in calls]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ended["finish_reason"]}
        choice |= {"output_error": ended["output_error"]} if "output_error" in ended else {}
        return {
            "id": self._head.response_id,
            "object": "chat.completion",
            "created": self._head.created_s,
            "model": self._head.model,
            "choices": [choice],
            "usage": usage_object(ended["usage"]),
        }

    def detached(self, last_event_id: str) -> bytes:
        """The connection frame that sends the reader away to resume."""
        return base.detached(last_event_id)

    def failure(self, status: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A failure before the first byte, as it is."""
        return status, body

    def _group(self, group: Sequence[Event]) -> str:
        kind = group[0].kind
        if kind in _FIELDS:
            return self._delta(group)
        if kind == TOOL_CALL:
            return self._call(group)
        if kind == STARTED:
            return self._frame(self._choice('{"role":"assistant","content":""}', "null"), group[0])
        if kind == ENDED:
            return self._end(group[0])
        return ""

    def _delta(self, group: Sequence[Event]) -> str:
        last = group[-1]
        text = quote(base.text_of(group))
        return f"{self._id}{last.epoch}.{last.seq}{self._deltas[last.kind]}{text}{self._delta_end}"

    def _call(self, group: Sequence[Event]) -> str:
        """Of a call that only ends there is nothing to say, but that its arguments are invalid."""
        payload = joined_payload(group)
        if "name" not in payload and not payload["arguments"] and "error" not in payload:
            return ""
        call = _call_object(payload) if "name" in payload else {"function": {"arguments": payload["arguments"]}}
        call |= {"error": payload["error"]} if "error" in payload else {}
        delta = dumps({"tool_calls": [{"index": payload["index"], **call}]})
        return self._frame(self._choice(delta, "null"), group[-1])

    def _end(self, event: Event) -> str:
        ended = event.payload
        if ended["end_state"] != COMPLETED:
            return self._frame(dumps({"error": base.error_object(ended)}), event)
        fault = f',"output_error":{dumps(ended["output_error"])}' if "output_error" in ended else ""
        frames = self._frame(self._choice("{}", quote(ended["finish_reason"]) + fault))
        if self._head.include_usage:
            frames += self._frame(f'{self._before}],"usage":{dumps(usage_object(ended["usage"]))}}}')
        return frames + self._frame("[DONE]", event)

    def _choice(self, delta: str, finish_reason: str) -> str:
        choice = f'{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish_reason}}}'
        return f"{self._before}{choice}{self._after}"

    def _frame(self, data: str, event: Event | None = None) -> str:
        event_id = f"{self._head.response_id}:{event.epoch}.{event.seq}" if event else None
        return frame(data, id=event_id).decode("ascii")


def _call_object(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A call as the message has it; ``error`` is ours and says that the arguments cannot be used."""
    function = {"name": payload["name"], "arguments": payload["arguments"]}
    call: dict[str, Any] = {"id": payload["call_id"], "type": "function", "function": function}
    return call | ({"error": payload["error"]} if "error" in payload else {})


def usage_object(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The wire's usage, from the ended event's."""
    prompt, completion = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": count(usage, "cached_tokens")},
    }
