"""Owns how a made-up answer went: its time of day, tokens, waits and end. Pure: rows out, nothing stored."""

import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from ulid import ULID

from .people import MACHINES, Machine, People

#: (end state, end reason, weight in ten thousand): about what a healthy site sees.
ENDS = (
    ("completed", "stop", 7870), ("completed", "length", 520), ("completed", "tool_calls", 260),
    ("completed", "content_filter", 4), ("cancelled", "user", 410), ("cancelled", "api", 90),
    ("cancelled", "superseded", 70), ("cancelled", "admin", 3), ("abandoned", "disconnected", 330),
    ("errored", "upstream_error", 40), ("errored", "upstream_protocol", 6), ("errored", "engine_aborted", 9),
    ("errored", "storage", 2), ("timed_out", "queue", 12), ("timed_out", "ttft", 9), ("timed_out", "idle", 14),
    ("timed_out", "total", 3), ("truncated", "upstream_lost", 33), ("truncated", "relay_lost", 12),
    ("rejected", "context_length", 90), ("rejected", "over_quota", 120), ("rejected", "overloaded", 60),
    ("rejected", "invalid_request", 33),
)  # fmt: skip
#: Ends before anything was made.
BEFORE_THE_FIRST_TOKEN = {("timed_out", "queue"), ("timed_out", "ttft")}
PURPOSES = (("chat", 52), ("api", 40), ("title", 6), ("batch", 2))
HOURS = tuple(0.25 + math.exp(-(((hour - 14) / 4.5) ** 2)) for hour in range(24))
WEEKEND = 0.45
MAX_TOKENS = 4096
#: From the engine's proof to the stored end.
STORING_MS = 6
#: The afternoon, so many days ago, on which one engine broke.
INCIDENT_DAYS_AGO = 5
INCIDENT_HOURS = (13, 14, 15)
BROKEN = 1


def _bounds(weights: tuple[float, ...]) -> list[float]:
    return list(accumulate(weights))


@dataclass
class Answers:
    """Answers of ``days`` days up to ``until``, oldest first."""

    people: People
    until: datetime
    days: int
    random: random.Random

    def __post_init__(self) -> None:
        self._ends = _bounds(tuple(weight for *_, weight in ENDS))
        self._purposes = _bounds(tuple(weight for _, weight in PURPOSES))
        self._machines = _bounds(tuple(machine.share for machine in MACHINES))
        self._users = _bounds(tuple(1 / (rank + 2) for rank in range(len(self.people.users))))
        self._keys = _bounds(tuple(1 / (rank + 1) for rank in range(len(self.people.keys))))

    def rows(self, count: int) -> Iterator[dict[str, Any]]:
        """So many rows of responses, as the fields of the table that differ from its defaults."""
        for at in self._times(count):
            yield self._row(at)

    def _times(self, count: int) -> Iterator[datetime]:
        """Rising moments: more by day than by night, fewer at weekends, a little growth."""
        start = self.until - timedelta(days=self.days)
        hours = [start + timedelta(hours=n) for n in range(self.days * 24)]
        weights = [
            HOURS[hour.hour] * (WEEKEND if hour.weekday() > 4 else 1) * (1 + n / len(hours))
            for n, hour in enumerate(hours)
        ]
        total, left = sum(weights), count
        for n, (hour, weight) in enumerate(zip(hours, weights, strict=True)):
            here = left if n == len(hours) - 1 else min(left, round(count * weight / total))
            left -= here
            for second in sorted(self.random.random() * 3600 for _ in range(here)):
                yield hour + timedelta(seconds=second)

    def _pick(self, choices: Any, bounds: list[float]) -> Any:
        return self.random.choices(choices, cum_weights=bounds)[0]

    def _row(self, at: datetime) -> dict[str, Any]:
        purpose, _ = self._pick(PURPOSES, self._purposes)
        number = self._pick(range(len(MACHINES)), self._machines)
        machine = MACHINES[number]
        state, reason, _ = self._pick(ENDS, self._ends)
        if self._is_incident(at) and number == BROKEN and self.random.random() < 0.35:
            state, reason = self.random.choice((("truncated", "upstream_lost"), ("errored", "upstream_error")))
        row = {
            "id": f"resp_{ULID.from_timestamp(at.timestamp())}",
            "purpose": purpose,
            "dialect": "responses" if purpose == "chat" else "openai_chat",
            "policy": "grace=30" if purpose == "chat" else "abort",
            "model": machine.model,
            "request": '{"max_tokens": 4096, "sampling": {"temperature": 0.7}, "stop": [], "options": {}}',
            "state": "ended",
            "created_at": at,
            "end_state": state,
            "end_reason": reason,
            **self._asker(purpose),
        }
        if state == "rejected":
            return {**row, "ended_at": at + timedelta(milliseconds=3), "last_seq": 1, "error_code": reason}
        row |= {"engine_id": self.people.engines[number], **self._course(at, purpose, machine, state, reason)}
        row["attempts"] = "[]" if reason == "queue" else json.dumps([_attempt(row, machine)])
        return row

    def _is_incident(self, at: datetime) -> bool:
        return (self.until - at).days == INCIDENT_DAYS_AGO and at.hour in INCIDENT_HOURS

    def _asker(self, purpose: str) -> dict[str, Any]:
        if purpose in ("chat", "title"):
            return {"user_id": self._pick(self.people.users, self._users)}
        key_id, user_id = self._pick(self.people.keys, self._keys)
        return {"user_id": user_id, "api_key_id": key_id}

    def _course(self, at: datetime, purpose: str, machine: Machine, state: str, reason: str) -> dict[str, Any]:
        """Waits and tokens from the queue to the end."""
        draw = self.random
        busy = HOURS[at.hour]
        prompt = min(30_000, int(draw.lognormvariate(5.9 if purpose != "title" else 4.6, 1.15)) + 12)
        cached = int(prompt * draw.random() * 0.9) if draw.random() < 0.45 else 0
        wanted = min(MAX_TOKENS, int(draw.lognormvariate(5.3 if purpose != "title" else 2.2, 0.9)) + 1)
        queue_ms = draw.expovariate(1 / (2 + 60 * max(0.0, busy - 0.8)))
        prefill_ms = machine.first_ms + machine.per_prompt_token_ms * (prompt - cached)
        ttft_ms = queue_ms + prefill_ms * draw.lognormvariate(0, 0.25) * (1 + 0.4 * busy)
        gap_ms = machine.gap_ms * draw.lognormvariate(0, 0.18) * (1 + 0.25 * busy)
        made, delivered, more = self._tokens(wanted, state, reason)
        course = {
            "admitted_at": at,
            "queue_ms": round(queue_ms, 2),
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "generated_tokens": made,
            "completion_tokens": made,
            "sent_tokens": made,
            "delivered_tokens": delivered,
            "finish_reason": reason if state == "completed" else None,
            "last_seq": made // 2 + 2 if made else 1,
            **more,
        }
        if state not in ("completed", "cancelled", "abandoned"):
            course["error_code"] = reason
        if not made:
            return {**course, "ended_at": at + timedelta(seconds=30 if reason == "queue" else 120)}
        took_ms = ttft_ms + gap_ms * made + (30_000 if reason == "idle" else 0)
        course["ended_at"] = at + timedelta(milliseconds=took_ms)
        if "stop_ms" in more:
            course["stop_requested_at"] = course["ended_at"] - timedelta(milliseconds=more["stop_ms"] + STORING_MS)
        course["ttft_ms"] = round(ttft_ms, 2) if delivered else None
        if made > 2:
            course["itl_p50_ms"] = round(gap_ms, 2)
            course["itl_p95_ms"] = round(gap_ms * draw.uniform(1.3, 2.2), 2)
            course["itl_max_ms"] = round(gap_ms * draw.uniform(2.5, 9), 2)
        return course

    def _tokens(self, wanted: int, state: str, reason: str) -> tuple[int, int, dict[str, Any]]:
        """How many were made, how many were delivered, and what belongs to a stop."""
        draw = self.random
        if (state, reason) in BEFORE_THE_FIRST_TOKEN:
            return 0, 0, {}
        if state == "completed":
            made = MAX_TOKENS if reason == "length" and draw.random() < 0.3 else wanted
            return made, made, {}
        made = max(1, int(wanted * draw.betavariate(1.3, 2.2)))
        if state == "cancelled":
            after = draw.choice((0, 0, 1, 1, 2, 3))
            stop_ms = round(draw.lognormvariate(3.0, 0.6), 2)
            more = {"stop_ms": stop_ms, "tokens_after_stop": min(after, made), "abort_proven": draw.random() < 0.998}
            return made, max(0, made - after), more
        if state == "abandoned":
            return made, max(0, made - int(draw.expovariate(1 / 40))), {"abort_proven": True}
        return made, max(0, made - draw.choice((0, 0, 1, 4))), {}


def _attempt(row: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """The one engine that was asked, as rows tell of it."""
    started_at = row["created_at"] + timedelta(milliseconds=row["queue_ms"])
    return {
        "engine_id": row["engine_id"],
        "engine": machine.name,
        "request_id": f"{row['id']}-1",
        "started_at": started_at.isoformat(),
        "first_output_ms": round(row["ttft_ms"] - row["queue_ms"], 2) if row.get("ttft_ms") else None,
        "duration_ms": round((row["ended_at"] - started_at).total_seconds() * 1000, 2),
        "prompt_tokens": row["prompt_tokens"],
        "cached_tokens": row["cached_tokens"],
        "generated_tokens": row["generated_tokens"],
        "count": "exact",
        "ended": row["finish_reason"] or row["end_reason"],
        "abort_proven": row.get("abort_proven"),
    }
