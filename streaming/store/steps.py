"""Owns reading what answers hold beside their text: reasoning, calls and results, as output items. Writes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Exists, Min, OuterRef

from streaming.models import Response, ResponseEvent
from streaming.protocol.dialects.output_items import Item, OutputItems
from streaming.protocol.end_state import COMPLETED
from streaming.protocol.events import REASONING, TEXT, TOOL_CALL, TOOL_RESULT, Event

from . import log, remains

STEPS = (REASONING, TOOL_CALL, TOOL_RESULT)


def of_ended(responses: Iterable[Response]) -> dict[str, list[dict[str, Any]]]:
    """The output items of ended answers, by response id; those of text alone are left out."""
    by_id = {response.id: response for response in responses}
    logs = log.by_response(ResponseEvent.objects.filter(response_id__in=by_id, kind__in=STEPS))
    for response_id, seq, text in _texts_before_steps(logs):
        logs[response_id].append(Event(seq, 0, TEXT, {"text": text}))
    for response in by_id.values():
        if response.remains:
            logs[response.id] = remains.left(response, response.remains)
    return {id_: items(by_id[id_], sorted(events, key=lambda event: event.seq)) for id_, events in logs.items()}


def items(response: Response, events: Iterable[Event]) -> list[dict[str, Any]]:
    """The output items of a log; empty when it holds text alone. The message stands in its place, without its text.

    ``text_before`` of the others is how many characters of the answer's text there were when they began.
    """
    output, chars = OutputItems(response.message_id or "", response.id), 0
    texts_before: list[int] = []
    for event in events:
        output.note(event)
        texts_before += [chars] * (len(output.items) - len(texts_before))
        chars += len(event.payload["text"]) if event.kind == TEXT else 0
    if all(item.kind == TEXT for item in output.items):
        return []
    return [_shown(*one, response.end_state) for one in zip(output.items, texts_before, strict=True)]


def _shown(item: Item, text_before: int, end_state: str | None) -> dict[str, Any]:
    status = {None: "in_progress", COMPLETED: "completed"}.get(end_state, "incomplete")
    shown = item.to_object("completed" if item.is_done else status, is_empty=item.kind == TEXT)
    return shown if item.kind == TEXT else shown | {"text_before": text_before}


def _texts_before_steps(logs: Mapping[str, Sequence[Event]]) -> Iterable[tuple[str, int, str]]:
    """Where the text begins in each log, and all of it that has a step after it: id, seq, text."""
    texts = ResponseEvent.objects.filter(kind=TEXT).order_by("response_id", "seq")
    began = texts.filter(response_id__in=logs).values("response_id").annotate(first=Min("seq"))
    firsts = dict(began.order_by().values_list("response_id", "first")) if logs else {}
    parted = [id_ for id_, first in firsts.items() if first < logs[id_][-1].seq]
    yield from ((id_, first, "") for id_, first in firsts.items() if id_ not in parted)
    if parted:
        later = ResponseEvent.objects.filter(
            response_id=OuterRef("response_id"), kind__in=STEPS, seq__gt=OuterRef("seq")
        )
        rows = texts.filter(Exists(later), response_id__in=parted)
        yield from (
            (id_, seq, payload["text"]) for id_, seq, payload in rows.values_list("response_id", "seq", "payload")
        )
