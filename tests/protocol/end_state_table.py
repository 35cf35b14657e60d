"""Owns the table of end states in docs/protocol-core.md. `python -m tests.protocol.end_state_table` draws it."""

from itertools import groupby
from pathlib import Path

from streaming.protocol.end_state import END_STATES, OUTCOMES

DOCS = Path(__file__).parents[2] / "docs" / "protocol-core.md"
BEGIN, END = "<!-- end states, drawn from the code -->\n", "<!-- end of the table -->\n"


def drawn() -> str:
    """One row for each event and outcome; its details in one cell."""
    lines = [
        f"| event | detail | a response that has not ended becomes | one of the {len(END_STATES)} ends |",
        "|---|---|---|---|",
    ]
    rows = [(event, detail, *outcome) for (event, detail), outcome in OUTCOMES.items()]
    for (event, state), run in groupby(rows, key=lambda row: (row[0], row[2])):
        group = list(run)
        details = ", ".join(f"`{detail}`" for _, detail, _, _ in group if detail) or "none"
        if all(detail == reason for _, detail, _, reason in group):
            outcome = f"`{state}`, the detail is its reason"
        else:
            outcome = ", ".join(f"`{state}` `{reason}`" for _, _, _, reason in group)
        lines.append(f"| `{event}` | {details} | {outcome} | stays |")
    unknown = "`errored` `upstream_protocol`, or `internal` where the detail is ours"
    lines.append(f"| any | one that is not listed | {unknown} | stays |")
    return "\n".join(lines) + "\n"


def in_docs() -> str:
    """What the page holds now."""
    return DOCS.read_text().partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Write the table into the page."""
    text = DOCS.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCS.write_text(before + BEGIN + drawn() + END + after)


if __name__ == "__main__":
    main()
