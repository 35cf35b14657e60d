"""Owns the measurements of one response while it runs: gaps, queue, what came after the stop. Does not store them."""

from array import array
from functools import cached_property
from typing import Any


class Figures:
    """Times are seconds of one monotonic clock, results are milliseconds."""

    def __init__(self, received_at: float):
        self.received_at = received_at
        self.admitted_at: float | None = None
        self.last_output_at: float | None = None
        self.stop_at: float | None = None
        self.proven_at: float | None = None
        self.abort_proven: bool | None = None
        self.tokens_at_stop = 0
        self._gaps_ms = array("f")

    def output(self, now: float) -> None:
        """An output arrived."""
        if self.last_output_at is not None:
            self._gaps_ms.append((now - self.last_output_at) * 1000)
        self.last_output_at = now

    def pause(self) -> None:
        """A round is over: the next output begins another, and what comes between is no gap."""
        self.last_output_at = None

    @property
    def queue_ms(self) -> float | None:
        """From the request's arrival to the engine's slot."""
        return None if self.admitted_at is None else milliseconds(self.admitted_at - self.received_at)

    @property
    def stop_ms(self) -> float | None:
        """From the stop call to the engine's proof, or to giving up on it."""
        if self.stop_at is None or self.proven_at is None:
            return None
        return milliseconds(self.proven_at - self.stop_at)

    @cached_property
    def ordered_gaps_ms(self) -> list[float]:
        """The gaps between outputs, the shortest first. Asked for at the end: no output comes after that."""
        return sorted(self._gaps_ms)

    def gaps(self) -> dict[str, float | None]:
        """Inter-token latency: median, 95th percentile and maximum in milliseconds."""
        ordered = self.ordered_gaps_ms
        if not ordered:
            return {"itl_p50_ms": None, "itl_p95_ms": None, "itl_max_ms": None}
        last = len(ordered) - 1
        return {
            "itl_p50_ms": round(ordered[last // 2], 2),
            "itl_p95_ms": round(ordered[int(last * 0.95)], 2),
            "itl_max_ms": round(ordered[last], 2),
        }

    def stop_payload(self, generated_tokens: int, sent_tokens: int) -> dict[str, Any] | None:
        """What a person who pressed stop is told; None when nobody did."""
        if self.stop_at is None:
            return None
        return {
            "stop_ms": self.stop_ms,
            "generated_tokens": generated_tokens,
            "sent_tokens": sent_tokens,
            "tokens_after_stop": max(0, generated_tokens - self.tokens_at_stop),
            "abort_proven": self.abort_proven,
        }


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds, to what a person reads."""
    return round(seconds * 1000, 2)
