"""Owns reading numbers out of a Prometheus text. Knows no metric's name."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator

SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{.*\})? +(\S+)")


def samples(text: str) -> Iterator[tuple[str, float]]:
    """Each sample's name and value; what is no number, or none that ends, is left out."""
    for line in text.splitlines():
        if sample := SAMPLE.match(line):
            name, value = sample.groups()
            try:
                number = float(value)
            except ValueError:
                continue
            if math.isfinite(number):
                yield name, number


def highest(text: str, name: str) -> float | None:
    """The greatest of a metric's values over its labels."""
    return max((value for seen, value in samples(text) if seen == name), default=None)


def totals(text: str) -> dict[str, int]:
    """Each metric's value summed over its labels, rounded down; what is no number is left out."""
    values: defaultdict[str, float] = defaultdict(float)
    for name, value in samples(text):
        values[name] += value
    return {name: int(value) for name, value in values.items()}
