"""Owns the course of one response in time: its moments, phases and gaps, out of its row and its events. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from django.template.defaultfilters import pluralize

from streaming.models import Response
from streaming.protocol.events import CONTINUED, ENDED, STARTED, TOOL_RESULT

#: A gap is worth a line when it is so many times the median one.
LONG_GAP = 4
GAPS_SHOWN = 12
LEAST_GAP_MS = 20


class Happened(NamedTuple):
    """An event as the timeline needs it; ``at_ms`` counts from the request's arrival, None where it is not known."""

    seq: int
    kind: str
    at_ms: int | None
    token_count: int
    payload: dict[str, Any] | None = None


class Moment(NamedTuple):
    """Something that happened at one time. ``kind`` chooses its colour."""

    at_ms: float
    name: str
    kind: str
    says: str = ""


class Phase(NamedTuple):
    """What was going on between two times."""

    name: str
    kind: str
    start_ms: float
    end_ms: float


class Gap(NamedTuple):
    """A time without any event of the answer, before event ``seq``."""

    start_ms: float
    end_ms: float
    seq: int

    @property
    def length_ms(self) -> float:
        return self.end_ms - self.start_ms


@dataclass(slots=True)
class Timeline:
    """Times are milliseconds since the request arrived. ``steps`` are (time, tokens stored until then)."""

    total_ms: float
    moments: list[Moment] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    steps: list[tuple[float, int]] = field(default_factory=list)
    median_gap_ms: float | None = None
    longest_gap_ms: float | None = None


def timeline(response: Response, events: Sequence[Happened], now: datetime) -> Timeline:
    """The course of a response so far."""
    timed = [event for event in events if event.at_ms is not None]
    end_ms = _since(response, response.ended_at)
    last_ms = float(timed[-1].at_ms or 0) if timed else 0.0
    handed_ms = response.ttft_ms or 0.0
    course = Timeline(max(1.0, last_ms, handed_ms, end_ms if end_ms is not None else _since(response, now) or 0.0))
    course.moments = sorted(_moments(response, timed, end_ms), key=lambda moment: moment.at_ms)
    course.phases = _phases(response, timed, course.total_ms)
    _measure(course, timed)
    return course


def _since(response: Response, at: datetime | None) -> float | None:
    return None if at is None else max(0.0, (at - response.created_at).total_seconds() * 1000)


def _moments(response: Response, events: Sequence[Happened], end_ms: float | None) -> list[Moment]:
    moments = [Moment(0, "received", "start", "the request arrived and was admitted")]
    if response.end_state == "rejected":
        moments[0] = Moment(0, "received", "start")
    if response.queue_ms is not None:
        moments.append(Moment(response.queue_ms, "engine took it", "queue", "out of the queue, the prompt is read"))
    for event in events:
        if event.kind == STARTED:
            moments.append(Moment(event.at_ms or 0, "first output stored", "first", "the answer begins in the log"))
        elif event.kind == CONTINUED:
            payload = event.payload or {}
            says = f"attempt {payload.get('attempt', '?')}, because of {payload.get('reason', '?')}"
            moments.append(Moment(event.at_ms or 0, "carried on", "bad", says))
        elif event.kind == TOOL_RESULT:
            moments.append(_answered(event))
    if response.ttft_ms is not None:
        # Whole answers are handed over when their end is stored.
        name = "first text to a reader" if response.stream else "whole answer to its reader"
        moments.append(Moment(response.ttft_ms, name, "first", "handed to a socket"))
    moments += _stop(response)
    if end_ms is not None:
        stored = next((event.at_ms for event in reversed(events) if event.kind == ENDED), None)
        says = f"{response.end_state}: {response.end_reason}"
        moments.append(Moment(end_ms if stored is None else stored, "end", _end_kind(response), says))
    return moments


def _answered(event: Happened) -> Moment:
    error = (event.payload or {}).get("error")
    return Moment(event.at_ms or 0, "tool result", "bad" if error else "good", error or "the tool answered")


def _stop(response: Response) -> list[Moment]:
    clicked_ms = _since(response, response.stop_requested_at)
    if clicked_ms is None:
        return []
    moments = [Moment(clicked_ms, "stop asked for", "stop", f"by {response.stop_reason or response.end_reason}")]
    if response.stop_ms is not None:
        made = response.tokens_after_stop or 0
        says = f"{response.stop_ms:.0f} ms after the stop, {made} token{pluralize(made)} made meanwhile"
        name = "abort proven" if response.abort_proven else "gave up waiting for proof"
        moments.append(Moment(clicked_ms + response.stop_ms, name, "stop" if response.abort_proven else "bad", says))
    return moments


def _end_kind(response: Response) -> str:
    return {"completed": "good", "cancelled": "stop", "abandoned": "stop"}.get(response.end_state or "", "bad")


def _phases(response: Response, events: Sequence[Happened], total_ms: float) -> list[Phase]:
    first_ms = next((event.at_ms for event in events if event.kind == STARTED), response.ttft_ms)
    queue_ms = response.queue_ms
    if queue_ms is None:
        return [Phase("waiting", "queue", 0, total_ms)] if response.end_state != "rejected" else []
    phases = [Phase("queued", "queue", 0, queue_ms)]
    if first_ms is None:
        return [*phases, Phase("reading the prompt", "prefill", queue_ms, total_ms)]
    phases.append(Phase("reading the prompt", "prefill", queue_ms, max(first_ms, queue_ms)))
    clicked_ms = _since(response, response.stop_requested_at)
    decode_end_ms = total_ms if clicked_ms is None else min(clicked_ms, total_ms)
    phases.append(Phase("writing", "decode", max(first_ms, queue_ms), max(decode_end_ms, first_ms)))
    phases += _tools(events)
    if clicked_ms is not None and clicked_ms < total_ms:
        phases.append(Phase("stopping", "stop", max(clicked_ms, first_ms), total_ms))
    return phases


def _tools(events: Sequence[Happened]) -> list[Phase]:
    """When tools ran: from what was stored before a round's results to the last of these. Drawn over the writing."""
    phases, before_ms = [], 0.0
    for are_results, run in groupby(events, key=lambda event: event.kind == TOOL_RESULT):
        last_ms = float(list(run)[-1].at_ms or 0)
        if are_results:
            phases.append(Phase("running tools", "tools", before_ms, last_ms))
        before_ms = last_ms
    return phases


def _measure(course: Timeline, events: Sequence[Happened]) -> None:
    """Steps and gaps. Events of one commit share a time: between them is no gap."""
    tokens = 0
    for event in events:
        tokens += event.token_count
        at_ms = float(event.at_ms or 0)
        if course.steps and course.steps[-1][0] == at_ms:
            course.steps.pop()
        course.steps.append((at_ms, tokens))
    answer = [event for event in events if event.kind != ENDED]
    gaps = [Gap(float(a.at_ms or 0), float(b.at_ms or 0), b.seq) for a, b in pairwise(answer) if b.at_ms != a.at_ms]
    if not gaps:
        return
    lengths = sorted(gap.length_ms for gap in gaps)
    course.median_gap_ms, course.longest_gap_ms = lengths[len(lengths) // 2], lengths[-1]
    least_ms = max(LEAST_GAP_MS, LONG_GAP * course.median_gap_ms)
    long = sorted((gap for gap in gaps if gap.length_ms >= least_ms), key=lambda gap: -gap.length_ms)[:GAPS_SHOWN]
    course.gaps = sorted(long)
