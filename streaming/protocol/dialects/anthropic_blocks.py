"""Owns the content blocks of a message in Anthropic's dialect, as the events open and close them. Writes no frames."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..events import REASONING, TOOL_CALL, Event, joined_payload
from ..tool_calls import parsed_arguments
from . import base

#: An event's type and what it says beside its type.
Body = tuple[str, dict[str, Any]]

TEXT_BLOCK = {"type": "text", "text": ""}
THINKING_BLOCK = {"type": "thinking", "thinking": "", "signature": ""}


class Blocks:
    """Blocks are numbered as they begin. One of text is open at most; each call is open until its last event."""

    def __init__(self) -> None:
        self._count = 0
        self._open: tuple[str, int] | None = None
        self._calls: dict[int, int] = {}

    @property
    def open_text(self) -> int | None:
        """The index of the block of text that is open."""
        return self._open[1] if self._open is not None and self._open[0] == "text" else None

    def take(self, group: Sequence[Event]) -> list[Body]:
        """What a group of deltas says; the delta itself, or the end of a call, comes last."""
        if group[0].kind == TOOL_CALL:
            return self._call(joined_payload(group))
        kind = "thinking" if group[0].kind == REASONING else "text"
        bodies: list[Body] = []
        if self._open is None or self._open[0] != kind:
            bodies += self._close_text()
            self._open = kind, self._count
            bodies.append(self._start(THINKING_BLOCK if kind == "thinking" else TEXT_BLOCK))
        delta = {"type": f"{kind}_delta", kind: base.text_of(group)}
        return [*bodies, ("content_block_delta", {"index": self._open[1], "delta": delta})]

    def close(self) -> list[Body]:
        """The message is over: what is still open ends."""
        calls = [("content_block_stop", {"index": index}) for index in self._calls.values()]
        self._calls = {}
        return [*self._close_text(), *calls]

    def _call(self, payload: Mapping[str, Any]) -> list[Body]:
        bodies: list[Body] = []
        index = self._calls.get(payload["index"])
        if index is None:
            bodies += self._close_text()
            index = self._calls[payload["index"]] = self._count
            block = {"type": "tool_use", "id": payload["call_id"], "name": payload["name"], "input": {}}
            bodies.append(self._start(block))
        if payload["complete"]:
            del self._calls[payload["index"]]
            return [*bodies, ("content_block_stop", {"index": index, **_flagged(payload)})]
        delta = {"type": "input_json_delta", "partial_json": payload["arguments"]}
        return [*bodies, ("content_block_delta", {"index": index, "delta": delta})]

    def _start(self, block: Mapping[str, Any]) -> Body:
        self._count += 1
        return "content_block_start", {"index": self._count - 1, "content_block": block}

    def _close_text(self) -> list[Body]:
        if self._open is None:
            return []
        index, self._open = self._open[1], None
        return [("content_block_stop", {"index": index})]


def content_of(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The blocks of a whole answer, as a message that was not streamed has them."""
    blocks: list[dict[str, Any]] = []
    calls: dict[int, list[Event]] = {}
    for event in events:
        if event.kind == TOOL_CALL:
            if event.payload["index"] not in calls:
                calls[event.payload["index"]] = []
                blocks.append({"type": "tool_use", "call": event.payload["index"]})
            calls[event.payload["index"]].append(event)
        elif "text" in event.payload:
            _add_text(blocks, "thinking" if event.kind == REASONING else "text", event.payload["text"])
    return [_called(joined_payload(calls[block["call"]])) if "call" in block else block for block in blocks]


def _add_text(blocks: list[dict[str, Any]], kind: str, text: str) -> None:
    if not blocks or blocks[-1]["type"] != kind:
        blocks.append(dict(THINKING_BLOCK if kind == "thinking" else TEXT_BLOCK))
    blocks[-1][kind] += text


def _called(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that are no JSON object cannot stand in ``input``: they stand beside it, flagged."""
    arguments = parsed_arguments(payload["arguments"])
    unusable = {} if arguments is not None else {"error": "invalid_arguments", "arguments": payload["arguments"]}
    block = {"type": "tool_use", "id": payload["call_id"], "name": payload["name"], "input": arguments or {}}
    return {**block, **unusable}


def _flagged(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"error": payload["error"]} if "error" in payload else {}
