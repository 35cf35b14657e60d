"""Owns the log and the text of a made-up answer, true to the figures of its row. Pure: events out, nothing stored."""

import random
from collections.abc import Mapping
from typing import Any

from streaming.protocol.events import ENDED, STARTED, TEXT, Event

TEXT_OF_ALL = """The light turns once in twelve seconds and can be seen from far out at sea . A keeper used to climb
the stairs every evening , trim the wick , wind the clockwork and write down the weather . Today a small motor does it ,
and the log is kept by a computer on the coast , which asks for help only when a lamp fails ."""
WORDS = TEXT_OF_ALL.split()
QUESTIONS = (
    "How does a lighthouse work?",
    "Plan a weekend by the lake",
    "Explain tides to a child",
    "Write a haiku about rain",
    "Which boat should I rent?",
    "Summarise this log for me",
)
#: Where an engine was busy with somebody else's prompt: one gap in so many is long.
LONG_GAP_EVERY = 40


def log_of(row: Mapping[str, Any], draw: random.Random) -> list[Event]:
    """The events of a row, with their times; two tokens an event."""
    began_ms = int(row.get("ttft_ms") or row.get("queue_ms") or 1)
    ended_ms = int((row["ended_at"] - row["created_at"]).total_seconds() * 1000)
    tokens = row.get("sent_tokens", 0)
    events = [Event(1, 1, STARTED, {}, at_ms=began_ms)] if tokens else []
    texts = (tokens + 1) // 2
    weights = [_gap(draw) for _ in range(texts)]
    step, at_ms = (ended_ms - began_ms) / (sum(weights) or 1), float(began_ms)
    for n, weight in enumerate(weights):
        count = 2 if 2 * n + 2 <= tokens else 1
        events.append(Event(len(events) + 1, 1, TEXT, {"text": _words(n, count)}, (), count, int(at_ms)))
        at_ms += step * weight
    events.append(Event(len(events) + 1, 1, ENDED, _ended(row), at_ms=ended_ms))
    return events


def _gap(draw: random.Random) -> float:
    """How long a gap is beside the usual one."""
    return draw.uniform(0.7, 1.3) if draw.randrange(LONG_GAP_EVERY) else draw.uniform(6, 12)


def _words(n: int, count: int) -> str:
    words = [WORDS[(2 * n + i) % len(WORDS)] for i in range(count)]
    return "".join(word if word in ".,?" else f" {word}" for word in words)


def _ended(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("prompt_tokens", "cached_tokens", "generated_tokens", "completion_tokens", "sent_tokens")
    return {
        "end_state": row["end_state"],
        "end_reason": row["end_reason"],
        "finish_reason": row.get("finish_reason"),
        "error": None,
        "usage": {name: row.get(name, 0) for name in names},
        "stop": None,
    }
