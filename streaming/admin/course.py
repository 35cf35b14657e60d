"""Owns how the course of one response is read from its log and put into words for its page. Decides nothing about who
may see it."""

import json
from typing import Any

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from streaming.models import ReaderPresence, Response, ResponseEvent
from streaming.protocol.events import CONTINUED, ENDED, STARTED, TOOL_RESULT

from .drawing import draw_timeline, span_text
from .timeline import Happened, Timeline, timeline

EVENTS_SHOWN = 500
#: An answer has at most as many events as tokens.
EVENTS_MAX = 20_000
#: Kinds whose payload holds nothing that was said.
PLAIN = frozenset({STARTED, CONTINUED, ENDED})


def course_of(response: Response) -> dict[str, Any]:
    """What the template of the timeline needs."""
    events = [
        Happened(seq, kind, at_ms, count, _unsaid(kind, payload))
        for seq, kind, at_ms, count, payload in response.events.order_by("seq").values_list(
            "seq", "kind", "at_ms", "token_count", "payload"
        )[:EVENTS_MAX]
    ]
    course = timeline(response, events, timezone.now())
    return {
        "drawing": draw_timeline(course),
        "moments": [{"at": span_text(m.at_ms), "name": m.name, "kind": m.kind, "says": m.says} for m in course.moments],
        "gaps": [{"at": span_text(g.start_ms), "span": span_text(g.length_ms), "seq": g.seq} for g in course.gaps],
        "untimed": any(event.at_ms is None for event in events),
        **_gap_texts(course),
        "readers": sum(ReaderPresence.objects.filter(response_id=response.pk).values_list("readers", flat=True)),
    }


def _unsaid(kind: str, payload: dict[str, Any]) -> dict[str, Any] | None:
    """What of a payload nobody has said."""
    if kind == TOOL_RESULT:
        return {"error": payload.get("error")}
    return payload if kind in PLAIN else None


def _gap_texts(course: Timeline) -> dict[str, str]:
    lengths = {"median_gap": course.median_gap_ms, "longest_gap": course.longest_gap_ms}
    return {name: "" if ms is None else span_text(ms) for name, ms in lengths.items()}


def said(rows: Any) -> list[tuple[int, str]]:
    """Time and text of each delta and result; where no time is known, that of the one before."""
    texts, last_ms = [], 0
    for at_ms, payload in rows:
        last_ms = last_ms if at_ms is None else at_ms
        if text := payload.get("text") or payload.get("arguments") or _result(payload):
            texts.append((last_ms, text))
    return texts


def _result(payload: dict[str, Any]) -> str:
    return f"\n{output}\n" if (output := payload.get("output")) else ""


def event_table(response: Response, has_text: bool) -> SafeString:
    """The stored events in order; what deltas say, or only how long that is."""
    events = list(response.events.order_by("seq").defer("token_ids")[: EVENTS_SHOWN + 1])
    rows = (
        (e.seq, e.epoch, e.kind, "–" if e.at_ms is None else span_text(e.at_ms), e.token_count, _payload(e, has_text))
        for e in events[:EVENTS_SHOWN]
    )
    body = format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", rows)
    more = f"Only the first {EVENTS_SHOWN} events are shown." if len(events) > EVENTS_SHOWN else ""
    head = "<tr><th>seq</th><th>epoch</th><th>kind</th><th>at</th><th>tokens</th><th>payload</th></tr>"
    return format_html(
        '<table class="events"><thead>' + head + "</thead><tbody>{}</tbody></table><p>{}</p>", body, more
    )


def _payload(event: ResponseEvent, has_text: bool) -> str:
    if has_text or event.kind in PLAIN:
        return json.dumps(event.payload, ensure_ascii=False)
    sizes = [f"{name}: {_size(value)}" for name, value in event.payload.items() if name != "error"]
    # Of errors the codes are ours.
    return ", ".join([*sizes, f"error: {event.payload['error']}"] if event.payload.get("error") else sizes)


def _size(value: Any) -> str:
    return f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
