"""Owns gathering a response's tool calls from fragments and judging their arguments. Does not run or encode them."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from .clean_text import CleanText
from .engine_output import ToolFragment
from .tool_result import INVALID_ARGUMENTS


@dataclass(frozen=True, slots=True)
class CompleteCall:
    """A call that has ended with valid arguments: the only thing an executor should take."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class _Call:
    index: int
    call_id: str
    name: str = ""
    announced: bool = False
    complete: bool = False
    arguments: list[str] = field(default_factory=list)
    clean: CleanText = field(default_factory=CleanText)


class ToolCalls:
    """Fragments in, payloads of tool_call events out; calls are numbered in the order in which they appear.

    An id names a call. At one index a new id is a new call; a fragment without an id goes on with the
    call that its index named last. Ids and names that come again are not appended. A call without an
    id of its own gets one from ``id_prefix``, the same one whenever the log is read again; so does one whose id
    a call of an earlier round has. No two have one id. The first is number ``first``.
    """

    def __init__(self, id_prefix: str = "call", first: int = 0, taken: Collection[str] = ()) -> None:
        self._id_prefix = id_prefix
        self._first = first
        self._taken = set(taken)
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._at_index: dict[int | None, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def is_new(self, fragment: ToolFragment) -> bool:
        """Whether a fragment would begin another call."""
        return self._known(fragment) is None

    def take(self, fragment: ToolFragment) -> dict[str, Any] | None:
        """The event of this fragment; None while a call has no name, for it begins with one."""
        call = self._call_of(fragment)
        if fragment.name and not call.name:
            call.name = _cleaned(fragment.name)
        text = call.clean.push(fragment.arguments)
        if text:
            call.arguments.append(text)
        if not call.name or call.complete:
            return None
        if call.announced:
            return _delta(call, text) if text else None
        return self._announced(call)

    def complete(self, index: int | None) -> list[dict[str, Any]]:
        """The events that end the call named last at an index; none when it has ended already."""
        call = self._at_index[index]
        return [] if call.complete else self._completed(call)

    def complete_all(self) -> list[dict[str, Any]]:
        """The model's turn is over: the events that end what is still open."""
        return [payload for call in self._calls if not call.complete for payload in self._completed(call)]

    def _call_of(self, fragment: ToolFragment) -> _Call:
        call = self._known(fragment) or self._new(_cleaned(fragment.call_id or ""))
        self._at_index[fragment.index] = call
        return call

    def _known(self, fragment: ToolFragment) -> _Call | None:
        call_id = _cleaned(fragment.call_id or "")
        return self._by_id.get(call_id) if call_id else self._at_index.get(fragment.index)

    def _new(self, call_id: str) -> _Call:
        index = self._first + len(self._calls)
        own_id = call_id if call_id and call_id not in self._taken else f"{self._id_prefix}_{index}"
        while own_id in self._taken:
            own_id += "_"
        self._taken.add(own_id)
        call = _Call(index, own_id)
        self._calls.append(call)
        self._by_id[call_id or own_id] = call
        return call

    def _announced(self, call: _Call) -> dict[str, Any]:
        call.announced = True
        return _delta(call, "".join(call.arguments)) | {"name": call.name}

    def _completed(self, call: _Call) -> list[dict[str, Any]]:
        """The end is an event of its own: a reader that was cut off before it must not get arguments twice."""
        tail = call.clean.flush()
        call.arguments.append(tail)
        arguments = "".join(call.arguments)
        if not arguments.strip():
            arguments = tail = "{}"  # a call without arguments
            call.arguments.append(tail)
        payloads = [_delta(call, tail)] if tail and call.announced else []
        if not call.announced:
            payloads = [self._announced(call)]
        call.complete = True
        return [*payloads, _delta(call, "") | {"complete": True} | _fault(call)]


def parsed_arguments(arguments: str) -> dict[str, Any] | None:
    """The arguments of a call that has ended, None when they are no JSON object or hold what is no JSON."""
    try:
        value = json.loads(arguments, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def complete_call(payload: Mapping[str, Any]) -> CompleteCall | None:
    """What an executor takes, from a call's joined payload; None while it runs and where it is invalid."""
    if not payload["complete"] or "error" in payload:
        return None
    arguments = parsed_arguments(payload["arguments"])
    return None if arguments is None else CompleteCall(payload["call_id"], payload["name"], arguments)


def _delta(call: _Call, arguments: str) -> dict[str, Any]:
    return {"index": call.index, "call_id": call.call_id, "arguments": arguments, "complete": False}


def _fault(call: _Call) -> dict[str, str]:
    is_valid = call.name and parsed_arguments("".join(call.arguments)) is not None
    return {} if is_valid else {"error": INVALID_ARGUMENTS}


def _cleaned(text: str) -> str:
    clean = CleanText()
    return clean.push(text) + clean.flush()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
