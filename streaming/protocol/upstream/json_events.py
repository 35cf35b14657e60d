"""Owns what all streams of JSON events have in common: objects, fields of the right type, errors. Knows no wire."""

import json
from collections.abc import Mapping
from typing import Any

from ..sse_parser import ServerSentEvent

#: json.loads without its search for white space at both ends, which costs as much as a small object.
DECODE = json.JSONDecoder().raw_decode
#: Some providers carry signatures of several KB in the ids of calls.
LABEL_CHARS_MAX = 8192


class UpstreamFailure(ValueError):
    """An upstream's stream that cannot be an answer. ``reason`` is an end reason; ``message`` is ours and safe to show.

    ``said`` are the upstream's own words, which may hold a prompt: for a debug log and nothing else.
    """

    def __init__(self, reason: str, message: str, said: str = ""):
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.said = said


def object_of(event: ServerSentEvent) -> dict[str, Any]:
    """The event's JSON object; an UpstreamFailure for anything else, and where it tells of an error."""
    try:
        value, end = DECODE(event.data)
        if end != len(event.data):
            value = json.loads(event.data)
    except (ValueError, RecursionError) as error:
        raise UpstreamFailure("upstream_protocol", "the engine sent an event that is not JSON", event.data) from error
    if type(value) is not dict:
        raise UpstreamFailure("upstream_protocol", "the engine sent an event that is not an object", event.data)
    if value.get("error") or event.event == "error" or "error" in (value.get("object"), value.get("type")):
        raise UpstreamFailure("upstream_error", "the engine reported an error during the answer", event.data)
    return value


def text_at(fields: Mapping[str, Any], name: str) -> str:
    """The text of this name, empty where there is none; anything else makes no sense."""
    value = fields.get(name)
    if value is None:
        return ""
    if type(value) is not str:
        raise UpstreamFailure("upstream_protocol", "the engine sent content that is not text")
    return value


def label_at(fields: Mapping[str, Any], name: str) -> str | None:
    """The id or name, None where there is none or an empty one. It stands in many events, so it has a limit."""
    label = text_at(fields, name)
    if len(label) > LABEL_CHARS_MAX:
        raise UpstreamFailure("upstream_protocol", "the engine sent an id or a name that is too long")
    return label or None


def object_at(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object of this name, empty where there is none or something else."""
    value = fields.get(name)
    return value if type(value) is dict else {}


def count_at(fields: Mapping[str, Any], name: str) -> int | None:
    """The count, or index, of this name. An explicit zero is a value; what is no count is none."""
    value = fields.get(name)
    return value if type(value) is int and value >= 0 else None


def finish_reason_of(value: object, known: Mapping[str, str]) -> str | None:
    """Our word for why the model stopped; None where the engine says nothing yet. None is ever made up."""
    if value is None or value == "":
        return None
    if value == "error":
        raise UpstreamFailure("upstream_error", "the engine ended the answer with an error")
    reason = known.get(value) if type(value) is str else None
    if reason is None:
        raise UpstreamFailure("upstream_protocol", "the engine gave a finish reason that is not known", str(value))
    return reason
