"""Owns every budget of the bench: what is measured, its limit and unit, where the limit comes from, what breaks a run.

Machines that run this are shared and noisy, so a ratio of two sides of one run is judged tightly and an absolute time
loosely: the run fails above limit x slack, and `over` marks what lies between. What is counted has no slack. Where
other programs took more than CROWDED_PERCENT of the machine, wall times say little: `crowded`, and no failure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.results import Results, difference, ratio
from bench.sides import BARE, DIRECT, OURS

FEW, MANY = 50, 200
COUNTED, RATIO, TIMED = 1.0, 1.15, 3.0
CROWDED_PERCENT = 10

Verdict = Literal["ok", "over", "crowded", "broken", "missing"]


@dataclass(frozen=True, slots=True)
class Budget:
    name: str
    limit: float
    unit: str
    slack: float
    source: str
    measured: Callable[[Results], float | None]
    by_the_clock: bool = False  # of wall time, not of CPU time or counts

    @property
    def fails_above(self) -> float:
        return self.limit * self.slack

    def verdict(self, results: Results) -> Verdict:
        value = self.measured(results)
        if value is None:
            return "missing"
        if value <= self.limit:
            return "ok"
        if value <= self.fails_above:
            return "over"
        return "crowded" if self.by_the_clock and crowded(results) else "broken"


def crowded(results: Results) -> bool:
    return (results.load(OURS, MANY, "others_percent") or 0) > CROWDED_PERCENT


def ours_beside(side: str, streams: int, name: str) -> Callable[[Results], float | None]:
    return lambda results: ratio(results.load(OURS, streams, name), results.load(side, streams, name))


def above_direct(name: str) -> Callable[[Results], float | None]:
    return lambda results: difference(results.load(OURS, MANY, name), results.load(DIRECT, MANY, name))


def added(name: str, value: str, limit_ms: float, source: str) -> Budget:
    return Budget(name, limit_ms, "ms", TIMED, source, above_direct(value), by_the_clock=True)


def ours_load(name: str) -> Callable[[Results], float | None]:
    return lambda results: results.highest(OURS, MANY, name)


def ours_idle(name: str) -> Callable[[Results], float | None]:
    return lambda results: results.idle(OURS, name)


def growth_with_streams(results: Results) -> float | None:
    name = "steady_us_per_chunk"
    return ratio(results.load(OURS, MANY, name), results.load(OURS, FEW, name))


BUDGETS = [
    Budget("failed streams", 0, "", COUNTED, "a stream without its end is a lie", lambda r: len(r.failures(OURS))),
    Budget(
        "CPU per chunk, ours / bare daphne relay, 200 streams",
        1.0,
        "x",
        RATIO,
        "65 us beside 65-77 us, measured before the first line was written",
        ours_beside(BARE, MANY, "cpu_us_per_chunk"),
    ),
    Budget(
        "CPU per chunk, 200 streams",
        65,
        "us",
        TIMED,
        "budget now; the aim is 40, below a bare uvicorn relay that stores nothing",
        lambda r: r.load(OURS, MANY, "cpu_us_per_chunk"),
    ),
    Budget(
        "CPU per chunk, 200 streams / 50 streams",
        1.0,
        "x",
        1.25,
        "the cost of a chunk must not grow with the number of streams",
        growth_with_streams,
    ),
    added("latency added to the engine's, p50", "latency_p50_ms", 3, "reading speed"),
    added("latency added to the engine's, p99", "latency_p99_ms", 40, "one token's time at 25 tokens/s"),
    added("TTFT added, p50", "ttft_p50_ms", 25, "far below a prefill"),
    Budget("threads, 200 streams", 32, "", COUNTED, "no thread per stream", ours_load("threads")),
    Budget(
        "threads added by 200 idle streams",
        8,
        "",
        COUNTED,
        "no thread per stream; the shared pools may still fill",
        ours_idle("idle_threads_added"),
    ),
    Budget("database connections, 200 streams", 12, "", COUNTED, "none per stream", ours_load("database_connections")),
    Budget(
        "database connections, 200 idle streams",
        12,
        "",
        COUNTED,
        "none per stream",
        ours_idle("idle_database_connections"),
    ),
    Budget("memory per stream", 60, "KB", 1.5, "1,000 streams in one process", ours_load("kb_per_stream")),
    Budget("memory per idle stream", 60, "KB", 1.5, "1,000 streams in one process", ours_idle("idle_kb_per_stream")),
    Budget(
        "engine free after 200 closed sockets",
        1,
        "s",
        TIMED,
        "an abandoned answer costs no GPU time",
        ours_idle("freed_s"),
    ),
]
