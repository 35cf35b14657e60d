"""Owns what a part of the engines' drill has to say: a figure, what was promised of it, whether that holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HEAD = ("part", "engine", "what was done", "seen", "promised", "holds")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. ``holds`` is None for what could not be tried here; ``seen`` says why then."""

    part: str
    engine: str
    done: str
    seen: str
    promised: str
    holds: bool | None


def broken(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.holds is False]


def table(findings: Sequence[Finding]) -> str:
    """All of them as Markdown that is readable as it stands."""
    words = {True: "yes", False: "**no**", None: "not tried"}
    rows = [HEAD, *((f.part, f.engine, f.done, f.seen, f.promised, words[f.holds]) for f in findings)]
    widths = [max(len(row[nth]) for row in rows) for nth in range(len(HEAD))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])
