"""Owns how the results look to a reader: the tables on stdout and the document for machines. It measures nothing."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.budget import Budget
from bench.figures import FIGURES, HIGHEST
from bench.results import Results, ratio
from bench.sides import BARE, DIRECT, NGINX, OURS

SIDES = [OURS, BARE, NGINX, DIRECT]


def tables(results: Results, budgets: Sequence[Budget]) -> str:
    return "\n\n".join([figure_table(results), budget_table(results, budgets), *failure_lines(results)])


def value_of(results: Results, part: str, case: str, side: str, name: str) -> float | None:
    return (results.highest if name in HIGHEST else results.middle)(part, case, side, name)


def figure_table(results: Results) -> str:
    rows = []
    for part, case in results.cases():
        rows += [[], [f"{part}: {case}"]]
        for name, label in FIGURES.items():
            values = [value_of(results, part, case, side, name) for side in SIDES]
            if any(value is not None for value in values):
                rows.append([f"  {label}", *map(number, values), number(ratio(values[0], values[1]), " x")])
    return grid(["median of rounds", *SIDES, "ours / bare"], rows)


def budget_table(results: Results, budgets: Sequence[Budget]) -> str:
    rows = [
        [
            f"{budget.part}: {budget.name}",
            number(budget.measured(results)),
            f"{number(budget.limit)} {budget.unit}".strip(),
            number(budget.fails_above),
            budget.verdict(results),
            budget.source,
        ]
        for budget in budgets
    ]
    return grid(["budget", "measured", "limit", "fails above", "verdict", "from"], rows)


def failure_lines(results: Results) -> list[str]:
    failed = [(side, results.failures(side)) for side in SIDES]
    return [f"{side}: {len(why)} failed, for example: {why[0]}" for side, why in failed if why]


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "-"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}{unit}"
    return f"{value:.1f}{unit}" if abs(value) >= 10 else f"{value:.2f}{unit}"


def grid(head: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as their cells; a row of one cell is a heading, an empty one an empty line."""
    columns = [row for row in [head, *rows] if len(row) > 1]
    widths = [max(len(row[nth]) for row in columns) for nth in range(len(head))]

    def line(row: list[str]) -> str:
        if len(row) < 2:
            return "".join(row)
        cells = [
            cell.rjust(width) if 0 < column < 4 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])


def document(results: Results, budgets: Sequence[Budget]) -> dict[str, Any]:
    return {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "platform": platform.platform()},
        "budgets": [
            {
                "part": budget.part,
                "name": budget.name,
                "measured": budget.measured(results),
                "limit": budget.limit,
                "fails_above": budget.fails_above,
                "unit": budget.unit,
                "verdict": budget.verdict(results),
            }
            for budget in budgets
        ],
        "measures": [
            asdict(measure) | {"failures": list(measure.failures[:5]), "failed": len(measure.failures)}
            for measure in results.measures
        ],
    }
