"""Owns how runs are told: lines for a person, and the table in docs/reliability.md. Judges nothing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.drill.laws import LAWS
from tests.drill.run import Result

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
MARKED = re.compile(r"(<!-- drill -->\n).*?(<!-- /drill -->)", re.DOTALL)
HEAD = (
    "| seed | on | responses | killed / paused / terminated | resets | stalls | stops | twins | reconnects | adopted"
    " | ends | all ended after | took | load | laws broken |"
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run's name and result."""

    seed: int
    store: str
    result: Result


def told(run: Run) -> str:
    """A run in a few lines, breaches last."""
    result = run.result
    faults = ", ".join(f"{count} {name}" for name, count in sorted(result.faults.items()))
    ends = ", ".join(f"{count} {name}" for name, count in result.ends.most_common())
    lines = [
        f"seed {run.seed} on {run.store}: {result.responses} responses in {result.took_s:.0f} s: {ends}",
        f"  {faults}, {result.adopted} adopted; all ended {result.ended_after_s:.0f} s after the last fault",
        f"  {len(LAWS)} laws, {len(result.broken)} breaches; load {result.load:.1f}",
    ]
    lines += [f"  books: {'; '.join(result.books) or 'not compared'}"]
    return "\n".join([*lines, *(f"  BROKEN {line}" for line in result.broken)])


def table(runs: Sequence[Run]) -> str:
    """Runs as Markdown."""
    return "\n".join([HEAD, "|---" * HEAD.count(" | ") + "|---|", *map(_row, runs)])


def _row(run: Run) -> str:
    result, faults = run.result, run.result.faults
    ends = ", ".join(f"{count} {name}" for name, count in result.ends.most_common())
    cells = (
        run.seed, run.store, result.responses, f"{faults['kill']} / {faults['pause']} / {faults['terminate']}",
        faults["reset"], faults["stall"], faults["stop"], faults["twin"], faults["reconnect"], result.adopted, ends,
        f"{result.ended_after_s:.0f} s", f"{result.took_s:.0f} s", f"{result.load:.1f}", len(result.broken),
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def write(runs: Sequence[Run]) -> None:
    """Put the table into the document, in place of the one that stands there."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(MARKED.sub(lambda m: f"{m[1]}\n{table(runs)}\n\n{m[2]}", text), encoding="utf-8")
