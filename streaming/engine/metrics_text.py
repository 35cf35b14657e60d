"""Owns reading numbers out of a Prometheus text. Knows no metric's name."""

import re
from collections import defaultdict

SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{.*\})? +(\S+)")


def totals(text: str) -> dict[str, int]:
    """Each metric's value summed over its labels, rounded down; what is no number is left out."""
    values: defaultdict[str, float] = defaultdict(float)
    for line in text.splitlines():
        if sample := SAMPLE.match(line):
            name, value = sample.groups()
            try:
                int(number := float(value))
            except (ValueError, OverflowError):
                continue
            values[name] += number
    return {name: int(value) for name, value in values.items()}
