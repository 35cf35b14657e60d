"""Owns Anthropic's messages dialect: its events in their order and the message object. Knows no connection or row."""

from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from ..end_state import COMPLETED
from ..events import DELTAS, ENDED, STARTED, TEXT, TOOL_CALL, Event
from ..sse import checked_field, frame
from ..usage import count
from . import anthropic_errors, base
from .anthropic_blocks import Blocks, Body, content_of
from .base import Head, dumps

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


class AnthropicEncoder:
    """Encodes one response as message events. The state is which content blocks are open.

    The id of a message is the response's. The last frame of a group has the event id; those before it only
    open and close blocks.
    """

    def __init__(self, head: Head) -> None:
        self._head = head
        self._blocks = Blocks()
        #: Around the index, the text and the place of a text delta: the common case costs one escape and one join.
        self._delta_before = f"event: content_block_delta\nid: {checked_field(head.response_id)}:"
        self._delta_index = '\ndata: {"type":"content_block_delta","index":'

    def fold(self, events: Sequence[Event]) -> None:
        """Take note of events before the cursor."""
        for group in base.groups(events):
            self._bodies(group)

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of these events; kinds that messages do not have give none."""
        if len(events) == 1 and events[0].kind == TEXT and self._blocks.open_text is not None:
            return self._text_delta(events[0], self._blocks.open_text)
        return b"".join([self._frames(group) for group in base.groups(events)])

    def ending(self, events: Sequence[Event]) -> Iterator[bytes]:
        """Nothing is repeated there."""
        yield self.encode(events)

    def body(self, events: Sequence[Event]) -> dict[str, Any]:
        """The message, or an error object when the response did not complete."""
        ended = base.ended_payload(events)
        assert ended is not None, "a message needs the whole log"
        if ended["end_state"] != COMPLETED:
            return anthropic_errors.in_band(base.error_object(ended))
        return {**self._message(content_of(events)), **_stop(ended), "usage": usage_object(ended["usage"])}

    def detached(self, last_event_id: str) -> bytes:
        """The connection frame that sends the reader away to resume."""
        error = base.detached_error(last_event_id)
        return frame(dumps({"type": "error", "error": error}), event="error")

    def failure(self, status: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A failure before the first byte, in their words."""
        return anthropic_errors.failure(status, body["error"])

    def _text_delta(self, event: Event, index: int) -> bytes:
        delta = f'{index},"delta":{{"type":"text_delta","text":{quote(event.payload["text"])}}}}}'
        return f"{self._delta_before}{event.epoch}.{event.seq}{self._delta_index}{delta}\n\n".encode("ascii")

    def _frames(self, group: Sequence[Event]) -> bytes:
        bodies = self._bodies(group)
        if not bodies:
            return b""
        event_id = f"{self._head.response_id}:{group[-1].epoch}.{group[-1].seq}"
        *before, (name, last) = bodies
        return b"".join([*[_frame(*body) for body in before], _frame(name, last, event_id)])

    def _bodies(self, group: Sequence[Event]) -> list[Body]:
        kind = group[0].kind
        if kind in DELTAS or kind == TOOL_CALL:
            return self._blocks.take(group)
        if kind == STARTED:
            # The ping goes first in its group, for the last frame is the one that a reader comes back to.
            return [("message_start", {"message": self._message([])}), ("ping", {})]
        return self._ending(group[0].payload) if kind == ENDED else []

    def _ending(self, ended: Mapping[str, Any]) -> list[Body]:
        if ended["end_state"] != COMPLETED:
            return [("error", anthropic_errors.in_band(base.error_object(ended)))]
        delta = {"delta": _stop(ended), "usage": usage_object(ended["usage"])}
        return [*self._blocks.close(), ("message_delta", delta), ("message_stop", {})]

    def _message(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._head.response_id,
            "type": "message",
            "role": "assistant",
            "model": self._head.model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_object({"prompt_tokens": self._head.prompt_tokens}),
        }


def _frame(name: str, body: Mapping[str, Any], event_id: str | None = None) -> bytes:
    return frame(dumps({"type": name, **body}), event=name, id=event_id)


def _stop(ended: Mapping[str, Any]) -> dict[str, Any]:
    matched = ended.get("stop_sequence")
    reason = "stop_sequence" if matched is not None else STOP_REASONS[ended["finish_reason"]]
    fault = {"output_error": ended["output_error"]} if "output_error" in ended else {}
    return {"stop_reason": reason, "stop_sequence": matched, **fault}


def usage_object(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The wire's usage: there, what a cache had is no part of the input tokens."""
    cached = count(usage, "cached_tokens")
    return {
        "input_tokens": max(0, count(usage, "prompt_tokens") - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": count(usage, "completion_tokens"),
    }
