"""Owns the canonical events of a response: kinds, shapes, how deltas merge. Does not encode or store them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

from .allowance import text_bytes

STARTED = "started"
TEXT = "text"
REASONING = "reasoning"
TOOL_CALL = "tool_call"
TOOL_RESULT = "tool_result"
REFUSAL = "refusal"
CONTINUED = "continued"
ENDED = "ended"

KINDS = (STARTED, TEXT, REASONING, TOOL_CALL, TOOL_RESULT, REFUSAL, CONTINUED, ENDED)
#: Kinds whose payload is ``{"text"}``. A tool_call's is ``{"index", "call_id", "name", "arguments", "complete"}``: the
#: name in the call's first event only, ``arguments`` a fragment, ``complete`` true in its last one, whose arguments
#: are empty, with ``"error": "invalid_arguments"`` beside it where the fragments together are no JSON object. That of
#: a tool_result is what ``tool_result.ToolResult`` says; it carries the tokens of its round that no other event has.
DELTAS = frozenset({TEXT, REASONING, REFUSAL})
#: What else of a payload can be long.
_LONG = ("arguments", "output", "name", "call_id")
#: The most text of one event, for that is the least that a reader is given at a time.
EVENT_BYTES_MAX = 64 * 1024


def size_bytes(payload: Mapping[str, Any]) -> int:
    """At most what an event of this payload takes: its texts and a little more."""
    text = payload.get("text")
    if text is not None:
        return 64 + text_bytes(text)
    return 64 + sum([text_bytes(payload.get(name) or "") for name in _LONG])


def said_bytes(payload: Mapping[str, Any]) -> int:
    """What a delta, or a piece of a call, adds to what its answer holds."""
    return text_bytes(payload.get("text") or payload.get("arguments") or "")


class Draft(NamedTuple):
    """An event that has no number yet, because it is not stored yet.

    ``token_ids`` are the ids consumed since the last event (also those whose text is held back),
    ``token_count`` how many tokens that was; the two differ only for engines that give text.
    """

    kind: str
    payload: Mapping[str, Any]
    token_ids: tuple[int, ...] = ()
    token_count: int = 0


#: The latest time of an event, 25 days: its column holds no more, and who is taken over may have waited for years.
AT_MS_MAX = 2**31 - 1


class Event(NamedTuple):
    """A stored event. ``seq`` runs 1, 2, 3 … without gaps; ``epoch`` is the owner's that wrote it.

    ``at_ms`` is when it was taken to be stored, since the request arrived, at most AT_MS_MAX; None where that is not
    known.
    """

    seq: int
    epoch: int
    kind: str
    payload: Mapping[str, Any]
    token_ids: tuple[int, ...] = ()
    token_count: int = 0
    at_ms: int | None = None


def run_key(event: Draft | Event) -> object:
    """Adjacent events with equal keys are one delta; None for what always stays alone."""
    if event.kind in DELTAS:
        return event.kind
    if event.kind == TOOL_CALL and not event.payload["complete"]:
        return event.payload["index"]
    return None


def merge(drafts: Sequence[Draft]) -> list[Draft]:
    """Join adjacent deltas of one kind, and of one tool call, into one draft each; everything else stays alone."""
    if len(drafts) < 2:
        return list(drafts)
    merged: list[Draft] = []
    for key, run in groupby(drafts, key=run_key):
        same = list(run)
        merged.extend(same if key is None else [_joined(same)])
    return merged


def cut(drafts: Iterable[Draft]) -> list[Draft]:
    """The drafts with each delta that is longer than EVENT_BYTES_MAX in pieces. The first has its tokens."""
    pieces: list[Draft] = []
    for draft in drafts:
        field = "text" if draft.kind in DELTAS else "arguments"
        text = draft.payload.get(field) or ""
        if text_bytes(text) <= EVENT_BYTES_MAX:
            pieces.append(draft)
            continue
        step = EVENT_BYTES_MAX * len(text) // text_bytes(text)
        pieces.append(draft._replace(payload={**draft.payload, field: text[:step]}))
        rest = {name: value for name, value in draft.payload.items() if name != "name"}
        pieces += [Draft(draft.kind, {**rest, field: text[at : at + step]}) for at in range(step, len(text), step)]
    return pieces


def joined_payload(run: Sequence[Draft | Event]) -> dict[str, Any]:
    """The payload of several adjacent deltas as one."""
    if run[0].kind in DELTAS:
        return {"text": "".join([delta.payload["text"] for delta in run])}
    payload: dict[str, Any] = {}
    for delta in run:
        payload |= delta.payload
    return payload | {"arguments": "".join([delta.payload["arguments"] for delta in run])}


def calls_of(events: Iterable[Draft | Event]) -> list[dict[str, Any]]:
    """The tool calls that these events hold, each as one payload, in the order in which they began."""
    calls: dict[int, list[Draft | Event]] = {}
    for event in events:
        if event.kind == TOOL_CALL:
            calls.setdefault(event.payload["index"], []).append(event)
    return [joined_payload(call) for call in calls.values()]


def _joined(run: Sequence[Draft]) -> Draft:
    if len(run) == 1:
        return run[0]
    return Draft(
        run[0].kind,
        joined_payload(run),
        tuple(chain.from_iterable([draft.token_ids for draft in run])),
        sum([draft.token_count for draft in run]),
    )
