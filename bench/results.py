"""Owns the measurements of one run and their medians. It judges nothing and prints nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from bench.measure import Measure


@dataclass(slots=True)
class Results:
    loads: list[Measure] = field(default_factory=list)
    idles: list[Measure] = field(default_factory=list)

    def load(self, side: str, streams: int, name: str) -> float | None:
        return middle(m.values.get(name) for m in self.loads if (m.side, m.streams) == (side, streams))

    def highest(self, side: str, streams: int, name: str) -> float | None:
        """For what a later round cannot show again: memory once taken stays with the process."""
        found = [m.values[name] for m in self.loads if (m.side, m.streams) == (side, streams) and name in m.values]
        return max(found, default=None)

    def idle(self, side: str, name: str) -> float | None:
        return middle(m.values.get(name) for m in self.idles if m.side == side)

    def failures(self, side: str) -> list[str]:
        return [failure for m in (*self.loads, *self.idles) if m.side == side for failure in m.failures]


def middle(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return median(found) if found else None


def ratio(upper: float | None, lower: float | None) -> float | None:
    return None if upper is None or not lower else upper / lower


def difference(upper: float | None, lower: float | None) -> float | None:
    return None if upper is None or lower is None else upper - lower
