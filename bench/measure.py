"""Owns one measurement: which part and case it is of, of which side, its figures. It measures and judges nothing."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """What one side did once. `values` has names of `bench/figures.py`; a value that cannot be had is missing."""

    part: str
    case: str
    side: str
    values: dict[str, float]
    failures: tuple[str, ...] = ()


def quantile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def quantiles_ms(name: str, seconds: Sequence[float], percents: Sequence[int]) -> dict[str, float]:
    """Values named `name_pPERCENT_ms`; none when there is nothing to take them of."""
    return {f"{name}_p{percent}_ms": 1000 * quantile(seconds, percent) for percent in percents} if seconds else {}
