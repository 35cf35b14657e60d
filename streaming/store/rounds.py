"""Owns reading which of our tools ended answers called, and what these gave, as turns of a prompt. Writes nothing."""

from collections.abc import Iterable
from typing import Any

from streaming.models import Response, ResponseEvent
from streaming.protocol.events import TEXT, TOOL_CALL, TOOL_RESULT, Event
from streaming.protocol.rounds import Round, rounds_of

from . import log, remains

TOLD = (TEXT, TOOL_CALL, TOOL_RESULT)


def turns_of(responses: Iterable[Response]) -> dict[str, list[dict[str, Any]]]:
    """The turns of each ended answer that has results of tools, by response id; in one query at most.

    Out of its log, or what is left of that. An answer that did not call is not among them.
    """
    ran = [response for response in responses if response.end_state and response.run_tools]
    left = {response.id: remains.left(response, response.remains) for response in ran if response.remains}
    logs = {**left, **_logs([response.id for response in ran if response.id not in left])}
    return {id_: turns(events) for id_, events in logs.items() if any(e.kind == TOOL_RESULT for e in events)}


def turns(events: Iterable[Event]) -> list[dict[str, Any]]:
    """What a prompt says of an answer that is over: of each round the text, the calls that have results, and these."""
    return [turn for one in rounds_of(events) for turn in (_answered(one) if one.is_over else _said(one))]


def _logs(response_ids: list[str]) -> dict[str, list[Event]]:
    if not response_ids:
        return {}
    results = ResponseEvent.objects.filter(response_id__in=response_ids, kind=TOOL_RESULT).values("response_id")
    return log.by_response(ResponseEvent.objects.filter(response_id__in=results, kind__in=TOLD))


def _answered(one: Round) -> list[dict[str, Any]]:
    """Without calls that a stop or an end left without a result: some engines refuse those."""
    said, *results = one.turns()
    answered = {result["tool_call_id"] for result in results}
    return [{**said, "tool_calls": [call for call in said["tool_calls"] if call["id"] in answered]}, *results]


def _said(one: Round) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": one.text}]
