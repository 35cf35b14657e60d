"""Owns the OpenAI responses dialect: its events in their order and the response object. Knows no connection or row."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from ..events import CONTINUED, ENDED, REASONING, STARTED, TEXT, TOOL_CALL, TOOL_RESULT, Event, joined_payload
from ..sse import checked_field, frame
from . import base
from .base import Head, dumps
from .output_items import ITEM_KINDS, Item, OutputItems, Part
from .response_object import item_status, response_object, terminal_name

#: A group ending at seq s has its last frame numbered 16 s; so at most 15 can come before it.
NUMBERS_PER_EVENT = 16

#: An event's type and what it says beside type and number.
_Body = tuple[str, dict[str, Any]]


class OpenAIResponsesEncoder:
    """Encodes one response as responses events.

    The state is what has been opened and the text so far, which the closing events repeat.
    ``starting_after`` is the last sequence_number the client has: frames up to it are left out, for it
    may point into a group.
    """

    def __init__(self, head: Head, starting_after: int = 0) -> None:
        self._head = head
        self._starting_after = starting_after
        self._is_created = False
        self._output = self._new_output()
        #: Of the text part that is written, so that a delta costs one escape and one join.
        self._text: Part | None = None
        self._delta_before = f"event: response.output_text.delta\nid: {checked_field(head.response_id)}:"
        self._delta_number = '\ndata: {"type":"response.output_text.delta","sequence_number":'
        self._delta_after = ""

    def fold(self, events: Sequence[Event]) -> None:
        """Take note of events before the cursor."""
        for event in events:
            self._is_created = True
            self._output.note(event)
        message = self._output.message
        if message is not None:
            self._note_text(message)

    def encode(self, events: Sequence[Event]) -> bytes:
        """The frames of these events; kinds that this dialect does not have yet give none."""
        if len(events) == 1 and events[0].kind == TEXT and self._text is not None and self._output.reasoning is None:
            return self._delta(events, self._text).encode("ascii")
        return "".join([self._group(group) for group in base.groups(events)]).encode("ascii")

    def ending(self, events: Sequence[Event]) -> Iterator[bytes]:
        """As ``encode`` where the last event is the end: four of its frames may have the whole answer."""
        *before, end = events
        if before:
            yield self.encode(before)
        # Not by a name of this function's, which would keep what its reader has not taken a second time.
        yield from map(str.encode, self._numbered([end], self._ending(end.payload), closing=True))

    def body(self, events: Sequence[Event]) -> dict[str, Any]:
        """The response object as the events leave it, also while the response runs."""
        output = self._new_output()
        for event in events:
            output.note(event)
        return response_object(self._head, output, base.ended_payload(events))

    def detached(self, last_event_id: str) -> bytes:
        """The connection frame that sends the reader away to resume."""
        return base.detached(last_event_id)

    def failure(self, status: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A failure before the first byte, as it is."""
        return status, body

    def _new_output(self) -> OutputItems:
        message_id = self._head.message_id or f"msg_{self._head.response_id.removeprefix('resp_')}"
        return OutputItems(message_id, self._head.response_id)

    def _group(self, group: Sequence[Event]) -> str:
        kind = group[0].kind
        if kind == TEXT:
            return self._frames(group, [*self._creating(), *self._entering(group)]) + self._text_delta(group)
        if kind == TOOL_RESULT:
            return self._frames(group, [*self._creating(), *self._reasoned(), *self._result(group[0])], closing=True)
        if kind in ITEM_KINDS:
            return self._frames(group, [*self._creating(), *self._entering(group), *self._growing(group)], closing=True)
        if kind == STARTED:
            return self._frames(group, self._creating(), closing=True)
        if kind == CONTINUED:
            payload = group[0].payload
            continued = {"attempt": payload["attempt"], "reason": payload["reason"]}
            return self._frames(group, [*self._creating(), ("response.continued", continued)], closing=True)
        if kind == ENDED:
            return self._frames(group, self._ending(group[0].payload), closing=True)
        return ""

    def _creating(self) -> list[_Body]:
        """What comes before everything else."""
        if self._is_created:
            return []
        self._is_created = True
        response = response_object(self._head, self._output, None)
        return [("response.created", {"response": response}), ("response.in_progress", {"response": response})]

    def _entering(self, group: Sequence[Event]) -> list[_Body]:
        """The closing of the reasoning before this group, and the opening of its item and part, where they are due."""
        first = group[0]
        bodies = [] if first.kind == REASONING else self._reasoned()
        item, is_new = self._output.enter(first)
        if is_new:
            added = {"output_index": item.index, "item": item.to_object("in_progress", is_empty=True)}
            bodies.append(("response.output_item.added", added))
        if first.kind != TOOL_CALL:
            part, is_new = item.part(first.kind)
            if is_new:
                body = {**_place(item, part), "part": part.to_object("")}
                bodies.append(("response.content_part.added", body))
            if first.kind == TEXT:
                self._note_text(item)
        return bodies

    def _note_text(self, message: Item) -> None:
        part = next((part for part in message.parts if part.kind == TEXT), None)
        if part is not None and part is not self._text:
            self._text = part
            self._delta_after = f',{dumps(_place(message, part))[1:-1]},"logprobs":[],"delta":'

    def _text_delta(self, group: Sequence[Event]) -> str:
        assert self._text is not None, "its item was entered"
        return self._delta(group, self._text)

    def _delta(self, group: Sequence[Event], part: Part) -> str:
        last = group[-1]
        text = base.text_of(group)
        part.written.write(text)
        number = NUMBERS_PER_EVENT * last.seq
        return (
            f"{self._delta_before}{last.epoch}.{last.seq}{self._delta_number}{number}"
            f"{self._delta_after}{quote(text)}}}\n\n"
        )

    def _growing(self, group: Sequence[Event]) -> list[_Body]:
        """The delta of a group that is no text, and the end of a call."""
        item, _ = self._output.enter(group[0])
        for event in group:
            self._output.write(item, event)
        if item.kind != TOOL_CALL:
            part, _ = item.part(group[0].kind)
            return [(f"{part.event}.delta", {**_place(item, part), "delta": base.text_of(group)})]
        place = {"item_id": item.id, "output_index": item.index}
        if item.is_done:
            done = item.to_object("completed")
            names = {"name": done["name"], "arguments": done["arguments"]}
            ending = ("response.function_call_arguments.done", {**place, **names})
            return [ending, ("response.output_item.done", {"output_index": item.index, "item": done})]
        # Also an empty one: the last frame must not depend on which events came together.
        return [("response.function_call_arguments.delta", {**place, "delta": joined_payload(group)["arguments"]})]

    def _result(self, event: Event) -> list[_Body]:
        """It is whole as it comes: both frames say all of it."""
        item, _ = self._output.enter(event)
        self._output.write(item, event)
        body = {"output_index": item.index, "item": item.to_object("completed")}
        return [("response.output_item.added", body), ("response.output_item.done", body)]

    def _reasoned(self) -> list[_Body]:
        item = self._output.close_reasoning()
        return [*_closing(item, "completed")] if item is not None else []

    def _ending(self, ended: Mapping[str, Any]) -> Iterator[_Body]:
        """Calls that did not end are not done; the response object shows them as incomplete."""
        yield from self._creating()
        for item in (self._output.reasoning, self._output.message):
            if item is not None:
                yield from _closing(item, item_status(item, ended))
        yield terminal_name(ended), {"response": response_object(self._head, self._output, ended)}

    def _frames(self, group: Sequence[Event], events: Iterable[_Body], closing: bool = False) -> str:
        return "".join(self._numbered(group, events, closing))

    def _numbered(self, group: Sequence[Event], events: Iterable[_Body], closing: bool) -> Iterator[str]:
        """Number and write the events of a group; with ``closing`` the last of them is the group's last frame."""
        number = NUMBERS_PER_EVENT * (group[0].seq - 1)
        coming = iter(events)
        body = next(coming, None)
        while body is not None:
            following = next(coming, None)
            is_last = closing and following is None
            number = NUMBERS_PER_EVENT * group[-1].seq if is_last else number + 1
            assert is_last or number % NUMBERS_PER_EVENT, "a group has more frames than numbers"
            if number > self._starting_after:
                yield self._numbered_frame(number, *body, group[-1] if is_last else None)
            body = following

    def _numbered_frame(self, number: int, name: str, body: Mapping[str, Any], event: Event | None) -> str:
        event_id = f"{self._head.response_id}:{event.epoch}.{event.seq}" if event is not None else None
        data = dumps({"type": name, "sequence_number": number, **body})
        return frame(data, event=name, id=event_id).decode("ascii")


def _place(item: Item, part: Part) -> dict[str, Any]:
    return {"item_id": item.id, "output_index": item.index, "content_index": part.index}


def _closing(item: Item, status: str) -> Iterator[_Body]:
    """What ends an item of text: each part, then the item."""
    for part in item.parts:
        whole = {part.field: part.written.getvalue(), **part.event_extra}
        yield f"{part.event}.done", {**_place(item, part), **whole}
        yield "response.content_part.done", {**_place(item, part), "part": part.to_object()}
    yield "response.output_item.done", {"output_index": item.index, "item": item.to_object(status)}
