"""Owns what is counted and logged of a response that has ended, once, whoever ended it. Sees no word of its text."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from prometheus_client import Counter, Histogram

from .registry import REGISTRY, bounded
from .user_hash import user_hash

#: One line for each response that ended. Silent unless the settings raise its level: the admin has the same.
logger = logging.getLogger("streaming.ended")

QUEUE = Histogram(
    "chat_queue_seconds", "From a request's arrival to its engine's slot.", ["model"],
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60), registry=REGISTRY,
)  # fmt: skip
TOTAL = Histogram(
    "chat_total_seconds", "From a request's arrival to the end of its answer.", ["model"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800), registry=REGISTRY,
)  # fmt: skip
RESPONSES = Counter(
    "chat_responses", "Responses that ended.", ["model", "purpose", "end_state", "end_reason"], registry=REGISTRY
)
TOKENS = Counter(
    "chat_tokens", "Tokens of responses that ended, by what became of them.", ["model", "kind"], registry=REGISTRY
)
ATTEMPTS = Counter(
    "chat_engine_attempts", "Engines that were asked for a response, by how that ended.", ["engine", "ended"],
    registry=REGISTRY,
)  # fmt: skip
ABORTS = Counter(
    "chat_engine_aborts", "Engines that were left, by whether they showed that they stopped.", ["engine", "proven"],
    registry=REGISTRY,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finished:
    """A response's figures at its end; times in milliseconds, None where there is none. ``attempts`` as stored."""

    response_id: str
    end_state: str
    end_reason: str
    model: str
    purpose: str
    dialect: str
    stream: bool
    user_id: int | None
    error_code: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int = 0
    completion_tokens: int = 0
    sent_tokens: int = 0
    delivered_tokens: int = 0
    queue_ms: float | None = None
    ttft_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p95_ms: float | None = None
    itl_max_ms: float | None = None
    stop_ms: float | None = None
    total_ms: float | None = None
    abort_proven: bool | None = None
    attempts: Sequence[Mapping[str, Any]] = ()


def note(finished: Finished) -> None:
    """Count it, and log it where that is asked for."""
    _count(finished)
    for attempt in finished.attempts:
        _count_attempt(attempt)
    if logger.isEnabledFor(logging.INFO):
        logger.info("response ended", extra={"fields": _fields(finished)})


def expect(engine: str) -> None:
    """Begin an engine's aborts at 0: of a series that begins at 1 Prometheus sees no rise."""
    for proven in ("yes", "no"):
        ABORTS.labels(bounded("engine", engine), proven)


def _count(finished: Finished) -> None:
    model = bounded("model", finished.model)
    RESPONSES.labels(model, finished.purpose, finished.end_state, finished.end_reason).inc()
    if finished.queue_ms is not None:
        QUEUE.labels(model).observe(finished.queue_ms / 1000)
    if finished.total_ms is not None:
        TOTAL.labels(model).observe(finished.total_ms / 1000)
    for kind, count in (
        ("prompt", finished.prompt_tokens),
        ("cached", finished.cached_tokens),
        ("generated", finished.generated_tokens),
        ("completion", finished.completion_tokens),
        ("sent", finished.sent_tokens),
        ("delivered", finished.delivered_tokens),
    ):
        if count:
            TOKENS.labels(model, kind).inc(count)


def _count_attempt(attempt: Mapping[str, Any]) -> None:
    engine = bounded("engine", attempt["engine"])
    ATTEMPTS.labels(engine, attempt["ended"]).inc()
    if (proven := attempt["abort_proven"]) is not None:
        ABORTS.labels(engine, "yes" if proven else "no").inc()


def _fields(finished: Finished) -> dict[str, Any]:
    """Of the attempts how many, of the user a hash."""
    fields = asdict(finished)
    attempts, user_id = fields.pop("attempts"), fields.pop("user_id")
    return {**fields, "user_hash": user_hash(user_id), "attempts": len(attempts)}
