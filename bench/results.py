"""Owns the measurements of one run and their medians. It judges nothing and prints nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from bench.measure import Measure


@dataclass(slots=True)
class Results:
    measures: list[Measure] = field(default_factory=list)

    def middle(self, part: str, case: str, side: str, name: str) -> float | None:
        return middle(self._values(part, case, side, name))

    def highest(self, part: str, case: str, side: str, name: str) -> float | None:
        """For what a later round cannot show again: memory once taken stays with the process."""
        return max(self._values(part, case, side, name), default=None)

    def others_percent(self, part: str) -> float:
        """How much of the machine other programs took during a part."""
        return middle(m.values["others_percent"] for m in self.of(part) if "others_percent" in m.values) or 0

    def failures(self, side: str, part: str | None = None) -> list[str]:
        return [why for m in self.measures if m.side == side and part in (None, m.part) for why in m.failures]

    def of(self, part: str) -> list[Measure]:
        return [m for m in self.measures if m.part == part]

    def cases(self) -> list[tuple[str, str]]:
        """Part and case, each once, in the order in which they were measured."""
        return list(dict.fromkeys((m.part, m.case) for m in self.measures))

    def _values(self, part: str, case: str, side: str, name: str) -> Iterator[float]:
        wanted = (part, case, side)
        return (m.values[name] for m in self.measures if (m.part, m.case, m.side) == wanted and name in m.values)


def middle(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def ratio(upper: float | None, lower: float | None) -> float | None:
    return None if upper is None or not lower else upper / lower


def difference(upper: float | None, lower: float | None) -> float | None:
    return None if upper is None or lower is None else upper - lower
