"""Owns what a budget is and how a run is held against it. Which budgets there are stands in `bench/budgets.py`.

Machines that run this are shared and noisy, so a ratio of two figures of one run is judged tightly and an absolute
time loosely: the run fails above limit x slack, and `over` marks what lies between. What is counted has no slack. Where
other programs took more than CROWDED_PERCENT of the machine, wall times say little: `crowded`, and no failure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.figures import HIGHEST
from bench.results import Results, difference, ratio
from bench.sides import OURS

COUNTED, RATIO, GROWTH, MEMORY, TIMED = 1.0, 1.15, 1.25, 1.5, 3.0
CROWDED_PERCENT = 10

Verdict = Literal["ok", "over", "crowded", "broken", "missing"]
Measured = Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class Budget:
    part: str
    name: str
    limit: float
    unit: str
    slack: float
    measured: Measured
    source: str
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
        return "crowded" if self.by_the_clock and results.others_percent(self.part) > CROWDED_PERCENT else "broken"


def figure(part: str, case: str, name: str, side: str = OURS) -> Measured:
    if name in HIGHEST:
        return lambda results: results.highest(part, case, side, name)
    return lambda results: results.middle(part, case, side, name)


def quotient(upper: Measured, lower: Measured) -> Measured:
    return lambda results: ratio(upper(results), lower(results))


def above(upper: Measured, lower: Measured) -> Measured:
    return lambda results: difference(upper(results), lower(results))


def counted(part: str, name: str, limit: float, measured: Measured, source: str) -> Budget:
    return Budget(part, name, limit, "", COUNTED, measured, source)


def in_time(part: str, name: str, measured: Measured, source: str) -> Budget:
    """None may be left over; a machine that is too slow for us leaves some."""
    return Budget(part, name, 0, "", COUNTED, measured, source, by_the_clock=True)


def times(part: str, name: str, slack: float, measured: Measured, source: str, limit: float = 1.0) -> Budget:
    return Budget(part, name, limit, "x", slack, measured, source)


def timed(part: str, name: str, limit: float, unit: str, measured: Measured, source: str) -> Budget:
    return Budget(part, name, limit, unit, TIMED, measured, source, by_the_clock=True)


def memory(part: str, name: str, measured: Measured) -> Budget:
    return Budget(part, name, 60, "KB", MEMORY, measured, "1,000 streams in one process")


def bounded(part: str, case: str) -> list[Budget]:
    """What may not grow with the streams of a case."""
    return [
        counted(part, f"threads, {case}", 32, figure(part, case, "threads"), "no thread per stream"),
        counted(
            part, f"database connections, {case}", 12, figure(part, case, "database_connections"), "none per stream"
        ),
        memory(part, f"memory per stream, {case}", figure(part, case, "kb_per_stream")),
    ]


def failed(part: str) -> Budget:
    """None may end without its end, or with less or more than was asked for."""
    source = "a stream without its end is a lie"
    return counted(part, "failed streams", 0, lambda results: count_failed(results, part), source)


def count_failed(results: Results, part: str) -> int | None:
    return len(results.failures(OURS, part)) if results.of(part) else None
