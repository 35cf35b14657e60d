"""Owns reading what is kept of a response's input, and the whole thread up to a response. Keeps nothing itself."""

from collections.abc import Mapping
from typing import Any

from streaming.models import Response, ResponseEvent, ResponseInput
from streaming.protocol.events import TOOL_CALL, Event, calls_of

from . import remains, responses

THREAD_MAX = 256


class BrokenThread(Exception):
    """The thread cannot be carried on from this response; the message says why and is safe to show."""


def of(response_id: str) -> ResponseInput | None:
    """What is kept of a response's input."""
    return ResponseInput.objects.filter(response_id=response_id).first()


def asked(response_id: str) -> dict[str, Any]:
    """The fields of its request that the response object repeats; empty where nothing was kept."""
    rows = ResponseInput.objects.filter(response_id=response_id)
    return rows.values_list("asked", flat=True).first() or {}


def thread(response_id: str, user_id: int) -> list[dict[str, Any]]:
    """The turns up to the end of a response of this user, oldest first. Raises BrokenThread."""
    links: list[list[dict[str, Any]]] = []
    at = response_id
    while at:
        if len(links) == THREAD_MAX:
            raise BrokenThread(f"a thread of at most {THREAD_MAX} responses can be carried on")
        response = responses.get(at, user_id)
        kept = of(at) if response else None
        if response is None or kept is None:
            raise BrokenThread(f"no stored response {at[:40]!r} to carry on from")
        if response.end_state is None:
            raise BrokenThread(f"{at} has not ended")
        links.append([*kept.turns, *_answer(response)])
        at = kept.previous
    return [turn for link in reversed(links) for turn in link]


def _answer(response: Response) -> list[dict[str, Any]]:
    rows = ResponseEvent.objects.filter(response_id=response.id, kind=TOOL_CALL).order_by("seq")
    events = [Event(0, 0, TOOL_CALL, payload) for payload in rows.values_list("payload", flat=True)]
    calls = calls_of(events or remains.left(response, response.remains or ()))
    calls = [_call(payload) for payload in calls if payload["complete"]]
    if not calls and not response.output_text:
        return []
    return [{"role": "assistant", "content": response.output_text, **({"tool_calls": calls} if calls else {})}]


def _call(payload: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": payload["name"], "arguments": payload["arguments"]}
    return {"id": payload["call_id"], "type": "function", "function": function}
