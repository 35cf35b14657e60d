"""Owns the OpenAI responses dialect: its events in their order and the response object. Knows no connection or row."""

import io
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from ..events import CONTINUED, ENDED, STARTED, TEXT, Event
from ..sse import checked_field, frame
from . import base
from .base import Head, dumps
from .response_object import message_item, response_object, terminal_name, text_part

#: A group ending at seq s has its last frame numbered 16 s; so at most 15 can come before it.
NUMBERS_PER_EVENT = 16

#: An event's type and what it says beside type and number.
_Body = tuple[str, dict[str, Any]]

_NOT_STARTED, _CREATED, _WRITING = range(3)


class OpenAIResponsesEncoder:
    """Encodes one response as responses events.

    The state is how far the item structure was opened, and the text so far, which the closing
    events repeat. ``starting_after`` is the last sequence_number the client has: frames up to it
    are left out, for it may point into a group.
    """

    def __init__(self, head: Head, starting_after: int = 0) -> None:
        self._head = head
        self._starting_after = starting_after
        self._stage = _NOT_STARTED
        self._text = io.StringIO()
        self._item_id = head.message_id or f"msg_{head.response_id.removeprefix('resp_')}"
        self._place = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        self._delta_before = f"event: response.output_text.delta\nid: {checked_field(head.response_id)}:"
        self._delta_number = '\ndata: {"type":"response.output_text.delta","sequence_number":'
        self._delta_after = f',{dumps(self._place)[1:-1]},"logprobs":[],"delta":'

    def fold(self, events: Sequence[Event]) -> None:
        """Take note of events before the cursor."""
        for event in events:
            if event.kind == TEXT:
                self._stage = _WRITING
                self._text.write(event.payload["text"])
            else:
                self._stage = max(self._stage, _CREATED)

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of these events; kinds that this dialect does not have yet give none."""
        if self._stage == _WRITING and len(events) == 1 and events[0].kind == TEXT:
            return self._delta(events).encode("ascii")
        return "".join([self._group(group) for group in base.groups(events)]).encode("ascii")

    def body(self, events: Sequence[Event]) -> dict[str, Any]:
        """The response object as the events leave it, also while the response runs."""
        text = base.text_of([event for event in events if event.kind == TEXT])
        ended = base.ended_payload(events)
        return response_object(self._head, self._item_id, text or None, ended)

    def detached(self, last_event_id: str) -> bytes:
        """The connection frame that sends the reader away to resume."""
        return base.detached(last_event_id)

    def _group(self, group: Sequence[Event]) -> str:
        kind = group[0].kind
        if kind == TEXT:
            return self._frames(group, self._opening(_WRITING)) + self._delta(group)
        if kind == STARTED:
            return self._frames(group, self._opening(_CREATED), closing=True)
        if kind == CONTINUED:
            payload = group[0].payload
            continued = {"attempt": payload["attempt"], "reason": payload["reason"]}
            return self._frames(group, [*self._opening(_CREATED), ("response.continued", continued)], closing=True)
        if kind == ENDED:
            return self._frames(group, self._opening(_CREATED) + self._ending(group[0].payload), closing=True)
        return ""

    def _delta(self, group: Sequence[Event]) -> str:
        last = group[-1]
        text = base.text_of(group)
        self._text.write(text)
        number = NUMBERS_PER_EVENT * last.seq
        return (
            f"{self._delta_before}{last.epoch}.{last.seq}{self._delta_number}{number}"
            f"{self._delta_after}{quote(text)}}}\n\n"
        )

    def _opening(self, stage: int) -> list[_Body]:
        """The events that must have been sent before a stage, as far as they were not."""
        opening: list[_Body] = []
        if self._stage < _CREATED:
            response = response_object(self._head, self._item_id, None, None)
            opening += [("response.created", {"response": response}), ("response.in_progress", {"response": response})]
        if self._stage < _WRITING and stage == _WRITING:
            item = message_item(self._item_id, None, "in_progress")
            opening += [
                ("response.output_item.added", {"output_index": 0, "item": item}),
                ("response.content_part.added", {**self._place, "part": text_part("")}),
            ]
        self._stage = max(self._stage, stage)
        return opening

    def _ending(self, ended: Mapping[str, Any]) -> list[_Body]:
        closing: list[_Body] = []
        text = self._text.getvalue() if self._stage == _WRITING else None
        response = response_object(self._head, self._item_id, text, ended)
        if text is not None:
            closing = [
                ("response.output_text.done", {**self._place, "text": text, "logprobs": []}),
                ("response.content_part.done", {**self._place, "part": text_part(text)}),
                ("response.output_item.done", {"output_index": 0, "item": response["output"][0]}),
            ]
        return [*closing, (terminal_name(ended), {"response": response})]

    def _frames(self, group: Sequence[Event], events: Sequence[_Body], closing: bool = False) -> str:
        """Number and write the events of a group; with ``closing`` the last of them is the group's last frame."""
        assert len(events) < NUMBERS_PER_EVENT
        first = NUMBERS_PER_EVENT * (group[0].seq - 1)
        frames = ""
        for index, (name, body) in enumerate(events, start=1):
            is_last = closing and index == len(events)
            number = NUMBERS_PER_EVENT * group[-1].seq if is_last else first + index
            if number > self._starting_after:
                event_id = f"{self._head.response_id}:{group[-1].epoch}.{group[-1].seq}" if is_last else None
                data = dumps({"type": name, "sequence_number": number, **body})
                frames += frame(data, event=name, id=event_id).decode("ascii")
        return frames
