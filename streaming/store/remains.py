"""Owns what is left of a log that expired: its text's place among reasoning and calls, and its end. Expires none."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from django.db.models import Sum
from django.db.models.functions import Length

from streaming.models import Response, ResponseEvent
from streaming.protocol.events import CONTINUED, ENDED, STARTED, TEXT, Draft, Event, merge

from . import log

#: One run of deltas, or another event: kind, payload, token count. A text is where ``output_text`` has it.
Run = tuple[str, Mapping[str, Any], int]


def keep(response_ids: Collection[str]) -> None:
    """Fold these logs into their responses' rows; inside the caller's transaction, which holds the rows."""
    events = ResponseEvent.objects.filter(response_id__in=response_ids)
    mixed = set(events.exclude(kind__in=(STARTED, CONTINUED, TEXT, ENDED)).values_list("response_id", flat=True))
    plain = [response_id for response_id in response_ids if response_id not in mixed]
    folded = _of_text_alone(plain) | _of_several_kinds(mixed)
    rows = [Response(id=response_id, remains=folded.get(response_id, [])) for response_id in response_ids]
    Response.objects.bulk_update(rows, ["remains"])


def _of_text_alone(response_ids: Collection[str]) -> dict[str, list[Run]]:
    """Most logs. Their many events are counted where they are: to fetch them costs more than to delete them."""
    events = ResponseEvent.objects.filter(response_id__in=response_ids)
    texts = events.filter(kind=TEXT).order_by().values_list("response_id").annotate(Sum("token_count"))
    tokens = dict(texts)
    lengths = Response.objects.filter(id__in=tokens).values_list("id", Length("output_text"))
    folded: dict[str, list[Run]] = {id_: [(TEXT, {"chars": chars}, tokens[id_])] for id_, chars in lengths}
    ends = events.filter(kind=ENDED).values_list("response_id", "payload", "token_count")
    for response_id, payload, token_count in ends:
        folded.setdefault(response_id, []).append((ENDED, payload, token_count))
    return folded


def _of_several_kinds(response_ids: Collection[str]) -> dict[str, list[Run]]:
    rows = ResponseEvent.objects.filter(response_id__in=response_ids).order_by("response_id", "seq")
    wanted = rows.exclude(kind__in=(STARTED, CONTINUED)).values_list("response_id", "kind", "payload", "token_count")
    folded = {}
    for response_id, events in groupby(wanted, key=lambda row: row[0]):
        drafts = [Draft(kind, payload, (), token_count) for _, kind, payload, token_count in events]
        folded[response_id] = [_folded(draft) for draft in merge(drafts)]
    return folded


def read(response: Response) -> list[Event]:
    """The whole log, or what is left of it, with the same items, text and end. Seqs of what is left are its own."""
    events = log.read(response.id)
    if events or response.end_state is None:
        return events
    remains = Response.objects.filter(id=response.id).values_list("remains", flat=True).first()
    return left(response, remains or ())


def left(response: Response, remains: Sequence[Run]) -> list[Event]:
    """What is left of a log, as events."""
    events, at = [], 0
    for seq, (kind, payload, token_count) in enumerate(remains, 1):
        if kind == TEXT:
            end = at + payload["chars"]
            payload, at = {"text": response.output_text[at:end]}, end  # noqa: PLW2901  the text stands elsewhere
        events.append(Event(seq, response.epoch, kind, payload, (), token_count))
    return events


def _folded(draft: Draft) -> Run:
    payload = {"chars": len(draft.payload["text"])} if draft.kind == TEXT else draft.payload
    return draft.kind, payload, draft.token_count
