"""Owns the seven end states, their reasons and which event of a stream's life leads to which. Does not store them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COMPLETED = "completed"
CANCELLED = "cancelled"
ABANDONED = "abandoned"
ERRORED = "errored"
TIMED_OUT = "timed_out"
TRUNCATED = "truncated"
REJECTED = "rejected"

END_STATES = (COMPLETED, CANCELLED, ABANDONED, ERRORED, TIMED_OUT, TRUNCATED, REJECTED)

REASONS: dict[str, tuple[str, ...]] = {
    COMPLETED: ("stop", "length", "tool_calls", "content_filter"),
    CANCELLED: ("user", "api", "admin", "superseded", "deleted"),
    ABANDONED: ("disconnected",),
    ERRORED: ("upstream_error", "upstream_protocol", "engine_aborted", "storage", "internal"),
    TIMED_OUT: ("queue", "ttft", "idle", "total"),
    TRUNCATED: ("upstream_lost", "relay_lost"),
    REJECTED: (
        "invalid_request",
        "key_revoked",
        "key_expired",
        "scope",
        "not_found",
        "context_length",
        "over_quota",
        "overloaded",
        "conflict",
    ),
}


@dataclass(frozen=True, slots=True)
class End:
    """How a response ended. ``finish_reason`` is the model's and only set when an engine gave it."""

    end_state: str
    end_reason: str
    finish_reason: str | None = None
    error_message: str | None = None

    def __post_init__(self) -> None:
        if self.end_reason not in REASONS.get(self.end_state, ()):
            raise ValueError(f"no end reason {self.end_reason!r} in end state {self.end_state!r}")
        if (self.finish_reason is not None) != (self.end_state == COMPLETED):
            raise ValueError("a finish_reason goes with completed, and only with it")

    def to_payload(
        self, usage: Mapping[str, Any], stop: Mapping[str, Any] | None = None, stop_sequence: str | None = None
    ) -> dict[str, Any]:
        """The payload of the ended event. A person's stop and a reader's leaving are no errors.

        ``stop_sequence`` is the caller's stop string that ended the answer; without one there is no such member.
        """
        error = None
        if self.end_state not in (COMPLETED, CANCELLED, ABANDONED):
            error = {
                "code": self.end_reason,
                "message": self.error_message or default_message(self.end_state, self.end_reason),
            }
        return {
            "end_state": self.end_state,
            "end_reason": self.end_reason,
            "finish_reason": self.finish_reason,
            "error": error,
            "usage": dict(usage),
            "stop": dict(stop) if stop is not None else None,
            **({"stop_sequence": stop_sequence} if stop_sequence is not None else {}),
        }


# What can happen to a response that has not ended. Each but those after the blank line has a detail:
# the finish_reason, the engine error's reason, the timer's name, who stopped it, why it was refused.
FINISHED = "finished"
ENGINE_FAILED = "engine_failed"
TIMER_FIRED = "timer_fired"
STOPPED = "stopped"
REFUSED = "refused"

READERS_GONE = "readers_gone"
OWNER_LOST = "owner_lost"
STORAGE_FAILED = "storage_failed"
BUG = "bug"

#: (what happened, its detail) -> (end_state, end_reason)
OUTCOMES: dict[tuple[str, str], tuple[str, str]] = {
    **{(FINISHED, reason): (COMPLETED, reason) for reason in REASONS[COMPLETED]},
    # Nobody asked for this abort: had we, that end would have been set before.
    (FINISHED, "abort"): (ERRORED, "engine_aborted"),
    (ENGINE_FAILED, "upstream_error"): (ERRORED, "upstream_error"),
    (ENGINE_FAILED, "upstream_protocol"): (ERRORED, "upstream_protocol"),
    (ENGINE_FAILED, "engine_aborted"): (ERRORED, "engine_aborted"),
    (ENGINE_FAILED, "upstream_lost"): (TRUNCATED, "upstream_lost"),
    **{(TIMER_FIRED, timer): (TIMED_OUT, timer) for timer in REASONS[TIMED_OUT]},
    **{(STOPPED, origin): (CANCELLED, origin) for origin in REASONS[CANCELLED]},
    **{(REFUSED, reason): (REJECTED, reason) for reason in REASONS[REJECTED]},
    (READERS_GONE, ""): (ABANDONED, "disconnected"),
    (OWNER_LOST, ""): (TRUNCATED, "relay_lost"),
    (STORAGE_FAILED, ""): (ERRORED, "storage"),
    (BUG, ""): (ERRORED, "internal"),
}


def decide(current: End | None, happening: str, detail: str = "", message: str | None = None) -> End:
    """The end after something happened: the current one where there is one, the first end wins.

    A detail that the table does not know is an engine that makes no sense, or our bug.
    """
    if current is not None:
        return current
    unknown = "upstream_protocol" if happening in (FINISHED, ENGINE_FAILED) else "internal"
    state, reason = OUTCOMES.get((happening, detail), (ERRORED, unknown))
    return End(state, reason, finish_reason=reason if state == COMPLETED else None, error_message=message)


_MESSAGES = {
    CANCELLED: "The response was cancelled.",
    ABANDONED: "Nobody was reading the response any more.",
    TIMED_OUT: "The response took too long.",
    TRUNCATED: "The connection to the engine was lost before the response was complete.",
    REJECTED: "The request was refused.",
    "upstream_error": "The engine reported an error.",
    "upstream_protocol": "The engine sent something that makes no sense.",
    "engine_aborted": "The engine gave up on the response.",
    "storage": "The response could not be stored.",
    "internal": "Something went wrong on the server.",
}


def default_message(end_state: str, end_reason: str) -> str:
    """A sentence for people, safe to show, where nothing more exact is known. Not for completed."""
    return _MESSAGES.get(end_reason) or _MESSAGES[end_state]
