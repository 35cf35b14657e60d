"""Owns a view of JSON that is still being written: text for people to see. Does not give data to act on."""

import json
from dataclasses import dataclass
from typing import Any

import jiter


@dataclass(frozen=True, slots=True)
class PartialView:
    """JSON that is not all there yet, as far as it can be read.

    It is no mapping and gives out no value: nothing that takes arguments can take it. An executor
    takes ``tool_calls.CompleteCall``, which only a call that has ended can become.
    """

    #: As JSON, closed where it was cut; empty while there is nothing to see.
    pretty: str
    #: The names and values of an object's members, each as text to show.
    members: tuple[tuple[str, str], ...]


def partial_view(text: str) -> PartialView:
    """A view of the beginning of a JSON text; an empty one of what is no JSON."""
    try:
        value = jiter.from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return PartialView("", ())
    members = value.items() if isinstance(value, dict) else ()
    return PartialView(_written(value), tuple((name, _shown(member)) for name, member in members))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
