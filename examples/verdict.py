"""Owns how a client tells a finished stream from a truncated and an errored one. Standard library only; does no I/O."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

FINISHED, TRUNCATED, ERRORED = "finished", "truncated", "errored"

#: Ends that leave a part of an answer that is right as far as it goes; after the other ones something is wrong.
_CUT_SHORT = frozenset({"cancelled", "abandoned", "truncated"})
_FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class Verdict(NamedTuple):
    """What a stream that is over amounts to.

    ``finish_reason`` is the model's, None unless the stream finished. ``parse_json``: structured output
    or tool arguments are whole. ``resume``: the answer may go on, ask for the rest with the last event id.
    """

    outcome: str
    finish_reason: str | None = None
    parse_json: bool = False
    resume: bool = False


_LOST = Verdict(TRUNCATED, resume=True)


def verdict(data: Iterable[str]) -> Verdict:
    """Judge a stream by the ``data`` of all its events, of any of the three dialects, once it has closed.

    A clean close proves nothing: only an event that says so ends an answer.
    """
    finish_reason = None
    for text in data:
        if text == "[DONE]":
            break
        body = _object(text)
        if body is None:
            return Verdict(ERRORED)
        end = _end(body)
        if end is not None:
            return end
        finish_reason = _finish_reason(body) or finish_reason
    return _LOST if finish_reason is None else _finished(finish_reason)


def _finished(finish_reason: str) -> Verdict:
    return Verdict(FINISHED, finish_reason, parse_json=finish_reason in ("stop", "tool_calls"))


def _end(body: Mapping[str, Any]) -> Verdict | None:
    """The verdict of an event that ends the stream by itself: an error, or a closing event of a response."""
    if body.get("error") or body.get("object") == "error" or body.get("type") == "error":
        return _failed(_mapping(body.get("error")))
    response = _mapping(body.get("response"))
    if body.get("type") == "response.completed":
        calls = any(_mapping(item).get("type") == "function_call" for item in response.get("output") or ())
        return _finished("tool_calls" if calls else "stop")
    if body.get("type") == "response.incomplete":
        reason = _FINISH_REASONS.get(_mapping(response.get("incomplete_details")).get("reason", ""))
        return _finished(reason) if reason else Verdict(TRUNCATED)
    return _failed(response) if body.get("type") == "response.failed" else None


def _failed(what: Mapping[str, Any]) -> Verdict:
    if what.get("code") == "stream_detached":
        return _LOST
    return Verdict(TRUNCATED if what.get("end_state") in _CUT_SHORT else ERRORED)


def _finish_reason(body: Mapping[str, Any]) -> str | None:
    if body.get("type") == "message_delta":
        return _STOP_REASONS.get(_mapping(body.get("delta")).get("stop_reason", ""))
    for choice in body.get("choices") or ():
        reason = _mapping(choice).get("finish_reason")
        if isinstance(reason, str):
            return reason
    return None


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        body = json.loads(text)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
