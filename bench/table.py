"""Owns how the results look to a reader: the tables on stdout and the document for machines. It measures nothing."""

import os
import platform
from dataclasses import asdict
from typing import Any

from bench.budgets import BUDGETS, FEW, MANY
from bench.results import Results, ratio
from bench.sides import BARE, DIRECT, NGINX, OURS

SIDES = [OURS, BARE, NGINX, DIRECT]
LOAD_ROWS = {
    "cpu_us_per_chunk": "CPU per engine chunk, all told, us",
    "steady_us_per_chunk": "CPU per engine chunk, streaming only, us",
    "cpu_ms_per_stream": "CPU to start and end a stream, ms",
    "cpu_percent": "CPU of one core, %",
    "latency_p50_ms": "engine to reader, p50, ms",
    "latency_p95_ms": "engine to reader, p95, ms",
    "latency_p99_ms": "engine to reader, p99, ms",
    "ttft_p50_ms": "TTFT p50, ms",
    "ttft_p95_ms": "TTFT p95, ms",
    "kb_per_stream": "memory per stream, KB (highest round)",
    "threads": "threads at peak (highest round)",
    "database_connections": "database connections (highest round)",
    "chunks_per_s": "engine chunks per s",
    "chunks_per_frame": "engine chunks per frame",
    "finished": "streams finished",
    "others_percent": "machine busy with other things, %",
}
IDLE_ROWS = {
    "idle_threads": "threads",
    "idle_threads_added": "threads added",
    "idle_database_connections": "database connections",
    "idle_kb_per_stream": "memory per stream, KB",
    "freed_s": "engine free after closing all, s",
}
HIGHEST = {"kb_per_stream", "threads", "database_connections"}


def tables(results: Results) -> str:
    parts = [load_table(results, streams) for streams in (FEW, MANY)]
    return "\n\n".join([*parts, idle_table(results), budget_table(results), *failure_lines(results)])


def load_value(results: Results, side: str, streams: int, name: str) -> float | None:
    return (results.highest if name in HIGHEST else results.load)(side, streams, name)


def load_table(results: Results, streams: int) -> str:
    rows = []
    for name, label in LOAD_ROWS.items():
        values = [load_value(results, side, streams, name) for side in SIDES]
        rows.append([label, *map(number, values), number(ratio(values[0], values[1]), " x")])
    title = f"{streams} streams x 25 chunks/s (median of rounds)"
    return grid([title, *SIDES, "ours / bare"], rows)


def idle_table(results: Results) -> str:
    rows = [[label, *(number(results.idle(side, name)) for side in (OURS, BARE))] for name, label in IDLE_ROWS.items()]
    return grid([f"{MANY} streams waiting for their first token", OURS, BARE], rows)


def budget_table(results: Results) -> str:
    rows = [
        [
            budget.name,
            number(budget.measured(results)),
            f"{number(budget.limit)} {budget.unit}".strip(),
            number(budget.fails_above),
            budget.verdict(results),
            budget.source,
        ]
        for budget in BUDGETS
    ]
    return grid(["budget", "measured", "limit", "fails above", "verdict", "from"], rows)


def failure_lines(results: Results) -> list[str]:
    failed = [(side, results.failures(side)) for side in SIDES]
    return [f"{side}: {len(why)} streams failed, for example: {why[0]}" for side, why in failed if why]


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "-"
    if value == int(value):
        return f"{value:.0f}{unit}"
    return f"{value:.1f}{unit}" if abs(value) >= 10 else f"{value:.2f}{unit}"


def grid(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(row: list[str]) -> str:
        cells = [
            cell.rjust(width) if 0 < column < 4 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])


def document(results: Results) -> dict[str, Any]:
    return {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "platform": platform.platform()},
        "medians": {
            side: {
                str(streams): {name: load_value(results, side, streams, name) for name in LOAD_ROWS}
                for streams in (FEW, MANY)
            }
            for side in SIDES
        },
        "idle": {side: {name: results.idle(side, name) for name in IDLE_ROWS} for side in (OURS, BARE)},
        "budgets": [
            {
                "name": budget.name,
                "measured": budget.measured(results),
                "limit": budget.limit,
                "fails_above": budget.fails_above,
                "unit": budget.unit,
                "verdict": budget.verdict(results),
            }
            for budget in BUDGETS
        ],
        "rounds": [
            asdict(measure) | {"failures": list(measure.failures[:5]), "failed": len(measure.failures)}
            for measure in (*results.loads, *results.idles)
        ],
    }
