"""Owns reading what answers hold beside their text: reasoning, calls and results, as output items. Writes nothing."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Min

from streaming.models import Response, ResponseEvent
from streaming.protocol.dialects.output_items import Item, OutputItems
from streaming.protocol.end_state import COMPLETED
from streaming.protocol.events import REASONING, TEXT, TOOL_CALL, TOOL_RESULT, Event

from . import remains

STEPS = (REASONING, TOOL_CALL, TOOL_RESULT)

#: What a log row gives here: seq, epoch, kind, payload.
Row = tuple[int, int, str, Mapping[str, Any]]


def of_ended(responses: Iterable[Response]) -> dict[str, list[dict[str, Any]]]:
    """The output items of ended answers, by response id; those of text alone are left out."""
    by_id = {response.id: response for response in responses}
    rows = ResponseEvent.objects.filter(response_id__in=by_id, kind__in=STEPS).order_by("response_id", "seq")
    logs: dict[str, list[Row]] = {}
    for response_id, seq, epoch, kind, payload in rows.values_list("response_id", "seq", "epoch", "kind", "payload"):
        logs.setdefault(response_id, []).append((seq, epoch, kind, payload))
    for response_id, seq in _text_began(logs):
        logs[response_id].append((seq, 0, TEXT, {"text": ""}))
    for response in by_id.values():
        if response.remains:
            logs[response.id] = [(e.seq, e.epoch, e.kind, e.payload) for e in remains.left(response, response.remains)]
    return {id_: items(by_id[id_], sorted(log, key=lambda row: row[0])) for id_, log in logs.items()}


def items(response: Response, log: Iterable[Row]) -> list[dict[str, Any]]:
    """The output items of a log; empty when it holds text alone. The message stands in its place, without its text."""
    output = OutputItems(response.message_id or "", response.id)
    for seq, epoch, kind, payload in log:
        output.note(Event(seq, epoch, kind, payload))
    if all(item.kind == TEXT for item in output.items):
        return []
    return [_shown(item, response.end_state) for item in output.items]


def _shown(item: Item, end_state: str | None) -> dict[str, Any]:
    status = {None: "in_progress", COMPLETED: "completed"}.get(end_state, "incomplete")
    return item.to_object("completed" if item.is_done else status, is_empty=item.kind == TEXT)


def _text_began(response_ids: Iterable[str]) -> list[tuple[str, int]]:
    """Where the text begins in each log: the message's place among the items."""
    ids = list(response_ids)
    if not ids:
        return []
    began = ResponseEvent.objects.filter(response_id__in=ids, kind=TEXT).values("response_id").order_by("response_id")
    return list(began.annotate(first=Min("seq")).values_list("response_id", "first"))
