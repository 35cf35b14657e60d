"""Owns the output items of a response in the responses dialect, as its events build them. Does not write frames."""

import io
from collections.abc import Mapping
from typing import Any

from ..events import REASONING, REFUSAL, TEXT, TOOL_CALL, TOOL_RESULT, Event

ITEM_KINDS = frozenset({TEXT, REFUSAL, REASONING, TOOL_CALL, TOOL_RESULT})


class Part:
    """One content part: text that grows, of one kind."""

    #: kind -> (type of the part, its field, the first half of its events' names)
    SHAPES = {
        TEXT: ("output_text", "text", "response.output_text"),
        REFUSAL: ("refusal", "refusal", "response.refusal"),
        REASONING: ("reasoning_text", "text", "response.reasoning_text"),
    }

    def __init__(self, kind: str, index: int) -> None:
        self.kind = kind
        self.index = index
        self.written = io.StringIO()
        self.type, self.field, self.event = self.SHAPES[kind]
        #: What an output text has beside its text, in its object and in its events.
        self.extra: dict[str, Any] = {"annotations": [], "logprobs": []} if kind == TEXT else {}
        self.event_extra: dict[str, Any] = {"logprobs": []} if kind == TEXT else {}

    def to_object(self, text: str | None = None) -> dict[str, Any]:
        """The part, with what was written so far or the given text."""
        return {"type": self.type, self.field: self.written.getvalue() if text is None else text, **self.extra}


class Item:
    """An output item: the message, a piece of reasoning, a function call, or what came of one.

    ``is_done``: no more will come. ``payload`` is that of a call's first event, or of a result.
    """

    def __init__(self, kind: str, item_id: str, index: int, payload: Mapping[str, Any] | None = None) -> None:
        self.kind = kind
        self.id = item_id
        self.index = index
        self.parts: list[Part] = []
        self.is_done = False
        self._payload = payload or {}
        self.arguments = io.StringIO()
        self.error: str | None = None

    def part(self, kind: str) -> tuple[Part, bool]:
        """The part of this kind, and whether it is new."""
        for part in self.parts:
            if part.kind == kind:
                return part, False
        self.parts.append(Part(kind, len(self.parts)))
        return self.parts[-1], True

    def to_object(self, status: str, is_empty: bool = False) -> dict[str, Any]:
        """The item as the wire has it; ``is_empty`` as it was when it was added."""
        content = [] if is_empty else [part.to_object() for part in self.parts]
        if self.kind == REASONING:
            return {"id": self.id, "type": "reasoning", "summary": [], "content": content, "status": status}
        if self.kind == TOOL_CALL:
            return self._call_object(status, "" if is_empty else self.arguments.getvalue())
        if self.kind == TOOL_RESULT:
            return self._result_object()
        return {"id": self.id, "type": "message", "role": "assistant", "status": status, "content": content}

    def _call_object(self, status: str, arguments: str) -> dict[str, Any]:
        call = {
            "id": self.id,
            "type": "function_call",
            "call_id": self._payload["call_id"],
            "name": self._payload["name"],
            "arguments": arguments,
            "status": status,
        }
        return call if self.error is None else call | {"error": self.error}

    def _result_object(self) -> dict[str, Any]:
        """It is whole whatever becomes of the response; what failed is incomplete, and ``error``, ours, says why."""
        call_id, output, error = (self._payload.get(name) for name in ("call_id", "output", "error"))
        result = {"id": self.id, "type": "function_call_output", "call_id": call_id, "output": output}
        failed = {"status": "incomplete", "error": error}
        return result | ({"status": "completed"} if error is None else failed)


class OutputItems:
    """The items in the order in which they began.

    There is one message for all text, open until the end, for clients take its last text as the whole
    answer. Reasoning is an item for each run of it; a call is one until its last event; a result is one at once.
    """

    def __init__(self, message_id: str, response_id: str) -> None:
        self.items: list[Item] = []
        self.reasoning: Item | None = None
        self.reasoning_tokens = 0
        self._message_id = message_id
        self._suffix = response_id.removeprefix("resp_")
        self._message: Item | None = None
        self._calls: dict[int, Item] = {}
        self._results = 0

    @property
    def message(self) -> Item | None:
        """The message, once there is text."""
        return self._message

    def enter(self, event: Event) -> tuple[Item, bool]:
        """The item that an event belongs to, and whether it begins with it. Its text is not taken yet."""
        if event.kind == REASONING:
            return self._enter_reasoning()
        if event.kind == TOOL_CALL:
            return self._enter_call(event.payload)
        if event.kind == TOOL_RESULT:
            return self._enter_result(event.payload), True
        is_new = self._message is None
        if self._message is None:
            self._message = self._add(Item(TEXT, self._message_id, len(self.items)))
        return self._message, is_new

    def close_reasoning(self) -> Item | None:
        """The reasoning that ends where another kind begins."""
        item, self.reasoning = self.reasoning, None
        if item is not None:
            item.is_done = True
        return item

    def note(self, event: Event) -> None:
        """Take an event with its text."""
        if event.kind not in ITEM_KINDS:
            return
        if event.kind != REASONING:
            self.close_reasoning()
        item, _ = self.enter(event)
        self.write(item, event)

    def write(self, item: Item, event: Event) -> None:
        """Add an event's text to its item."""
        if event.kind == TOOL_CALL:
            item.arguments.write(event.payload["arguments"])
            item.is_done, item.error = event.payload["complete"], event.payload.get("error")
            return
        if event.kind == TOOL_RESULT:
            item.is_done = True
            return
        item.part(event.kind)[0].written.write(event.payload["text"])
        if event.kind == REASONING:
            self.reasoning_tokens += event.token_count

    def to_objects(self, status: str) -> list[dict[str, Any]]:
        """All items; those that are done are completed whatever becomes of the response."""
        return [item.to_object("completed" if item.is_done else status) for item in self.items]

    def _add(self, item: Item) -> Item:
        self.items.append(item)
        return item

    def _enter_reasoning(self) -> tuple[Item, bool]:
        is_new = self.reasoning is None
        if self.reasoning is None:
            index = len(self.items)
            self.reasoning = self._add(Item(REASONING, f"rs_{self._suffix}_{index}", index))
        return self.reasoning, is_new

    def _enter_call(self, payload: Mapping[str, Any]) -> tuple[Item, bool]:
        known = self._calls.get(payload["index"])
        if known is not None:
            return known, False
        index = len(self.items)
        call = self._add(Item(TOOL_CALL, f"fc_{self._suffix}_{payload['index']}", index, payload))
        self._calls[payload["index"]] = call
        return call, True

    def _enter_result(self, payload: Mapping[str, Any]) -> Item:
        self._results += 1
        return self._add(Item(TOOL_RESULT, f"fco_{self._suffix}_{self._results - 1}", len(self.items), payload))
