"""Owns the rounds of a log: what the model said in each, which calls have results, the turns that they make.

Runs no call and renders no prompt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import strict_json
from .events import DELTAS, TEXT, TOOL_CALL, TOOL_RESULT, Event, calls_of, said_bytes

_SPOKEN = DELTAS | {TOOL_CALL}


class Earlier(NamedTuple):
    """What the rounds before one have made: it counts on from there, and its calls are others than theirs."""

    tokens: int = 0
    text: str = ""
    calls: int = 0
    call_ids: frozenset[str] = frozenset()
    said_bytes: int = 0


NOTHING = Earlier()


@dataclass(slots=True)
class Round:
    """What an engine said in one go, and the results of its calls. With the first result the engine has ended it."""

    said: list[Event] = field(default_factory=list)
    results: list[Event] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether results say that its engine had ended it."""
        return bool(self.results)

    @property
    def text(self) -> str:
        """What it said without reasoning."""
        return "".join([event.payload["text"] for event in self.said if event.kind == TEXT])

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Its calls, each as one payload, in the order in which they began."""
        return calls_of(self.said)

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """Its calls that have no result yet."""
        answered = {event.payload["call_id"] for event in self.results}
        return [call for call in self.calls if call["call_id"] not in answered]

    def turns(self) -> list[dict[str, Any]]:
        """What the next prompt says of it, as chat templates know it: the answer with its calls, then their results."""
        calls = [_as_turn(call) for call in self.calls]
        results = [event.payload for event in self.results]
        told = [{"role": "tool", "tool_call_id": one["call_id"], "content": one["output"]} for one in results]
        return [{"role": "assistant", "content": self.text, "tool_calls": calls}, *told]


def rounds_of(events: Iterable[Event]) -> list[Round]:
    """At least one; the last is the one that runs, unless its results say that it is over."""
    rounds = [Round()]
    for event in events:
        if event.kind == TOOL_RESULT:
            rounds[-1].results.append(event)
            continue
        if rounds[-1].is_over and event.kind in _SPOKEN:
            rounds.append(Round())
        if not rounds[-1].is_over:
            rounds[-1].said.append(event)
    return rounds


def split(events: Iterable[Event]) -> tuple[list[Round], list[Event]]:
    """The rounds that are over, and what was said since."""
    rounds = rounds_of(events)
    over = [one for one in rounds if one.is_over]
    return over, [] if rounds[-1].is_over else rounds[-1].said


def earlier(rounds: Sequence[Round]) -> Earlier:
    """What these have made together."""
    calls = [call["call_id"] for one in rounds for call in one.calls]
    tokens = sum(event.token_count for one in rounds for event in (*one.said, *one.results))
    said = sum(said_bytes(event.payload) for one in rounds for event in one.said)
    return Earlier(tokens, "".join(one.text for one in rounds), len(calls), frozenset(calls), said)


def _as_turn(call: dict[str, Any]) -> dict[str, Any]:
    """Arguments that are no JSON object would be refused by some engines; its result says that they were none.

    So would be half characters, and what is nested without end: no tool of ours takes such.
    """
    arguments = call["arguments"] if _is_tellable(call["arguments"]) else "{}"
    return {"id": call["call_id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _is_tellable(arguments: str) -> bool:
    try:
        return isinstance(strict_json.parse(arguments.encode()), dict)
    except strict_json.JsonRefused:
        return False
