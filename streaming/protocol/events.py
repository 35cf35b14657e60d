"""Owns the canonical events of a response: kinds, shapes, how deltas merge. Does not encode or store them."""

from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

STARTED = "started"
TEXT = "text"
REASONING = "reasoning"
TOOL_CALL = "tool_call"
TOOL_RESULT = "tool_result"
REFUSAL = "refusal"
CONTINUED = "continued"
ENDED = "ended"

KINDS = (STARTED, TEXT, REASONING, TOOL_CALL, TOOL_RESULT, REFUSAL, CONTINUED, ENDED)
DELTAS = frozenset({TEXT, REASONING, REFUSAL})


class Draft(NamedTuple):
    """An event that has no number yet, because it is not stored yet.

    ``token_ids`` are the ids consumed since the last event (also those whose text is held back),
    ``token_count`` how many tokens that was; the two differ only for engines that give text.
    """

    kind: str
    payload: Mapping[str, Any]
    token_ids: tuple[int, ...] = ()
    token_count: int = 0


class Event(NamedTuple):
    """A stored event. ``seq`` runs 1, 2, 3 … without gaps; ``epoch`` is the owner's that wrote it."""

    seq: int
    epoch: int
    kind: str
    payload: Mapping[str, Any]
    token_ids: tuple[int, ...] = ()
    token_count: int = 0


def merge(drafts: Sequence[Draft]) -> list[Draft]:
    """Join adjacent text-like deltas of one kind into one draft each; everything else stays alone."""
    if len(drafts) < 2:
        return list(drafts)
    merged: list[Draft] = []
    for kind, run in groupby(drafts, key=attrgetter("kind")):
        same_kind = list(run)
        merged.extend([_joined(kind, same_kind)] if kind in DELTAS else same_kind)
    return merged


def _joined(kind: str, run: Sequence[Draft]) -> Draft:
    if len(run) == 1:
        return run[0]
    return Draft(
        kind,
        {"text": "".join([draft.payload["text"] for draft in run])},
        tuple(chain.from_iterable([draft.token_ids for draft in run])),
        sum([draft.token_count for draft in run]),
    )
