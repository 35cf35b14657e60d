"""Owns what is told of verdicts: a table, JSON, a report. Decides none of them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from streaming.hops import BROKEN, BUFFERED, COMPRESSED, CUT, Finding, Verdict

HEAD = ("hop", "address", "events", "lag p50", "lag max", "verdict")


def verdict_words(verdict: Verdict) -> str:
    """All that is to be said of one hop."""
    if verdict.streams:
        return "streaming" + (f", {verdict.silent_s:g} s of silence passed" if verdict.silent_s else "")
    return "; ".join(finding_words(finding, verdict) for finding in verdict.findings)


def finding_words(finding: Finding, verdict: Verdict) -> str:
    """One finding, with where it comes from."""
    where = "here" if finding.is_here else "before this hop"
    if finding.kind == BUFFERED:
        return f"buffered {where}: up to {finding.events} events in a lump, held for up to {finding.seconds:.1f} s"
    if finding.kind == COMPRESSED:
        return f"compressed {where}: {finding.detail}"
    if finding.kind == CUT:
        return f"cut {where} after {finding.seconds:.1f} s of silence: {finding.detail}"
    assert finding.kind == BROKEN
    return f"broken {where} after {finding.events} of {verdict.expected} events: {finding.detail}"


def table(verdicts: Sequence[Verdict]) -> str:
    """One line for each hop, aligned."""
    rows = [HEAD, *(_row(number, verdict) for number, verdict in enumerate(verdicts, 1))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(number: int, verdict: Verdict) -> tuple[str, ...]:
    lags = (f"{lag_s * 1000:.1f} ms" for lag_s in (verdict.lag_p50_s, verdict.lag_max_s))
    return (str(number), verdict.url, f"{verdict.came}/{verdict.expected}", *lags, verdict_words(verdict))


def as_json(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """For scripts: each hop with its figures, its findings and the words for them."""
    return [{**asdict(verdict), "streams": verdict.streams, "verdict": verdict_words(verdict)} for verdict in verdicts]


def report(verdicts: Sequence[Verdict], proofs: Sequence[tuple[str, str, str]]) -> str:
    """A page of Markdown: the hops, and each item of the check list with its result and what was seen."""
    lines = ["# What was seen of the streams", "", "```", table(verdicts), "```", ""]
    lines += ["| checked | result | seen |", "|---|---|---|"]
    lines += ["| " + " | ".join(cell.replace("|", "/") for cell in proof) + " |" for proof in proofs]
    return "\n".join(lines) + "\n"
