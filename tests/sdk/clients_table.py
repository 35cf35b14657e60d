"""Owns the table of clients in docs/api.md, drawn from the tests that judge: python -m tests.sdk.clients_table."""

import importlib
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "api.md"
BEGIN, END = "<!-- clients, drawn from tests/sdk -->\n", "<!-- end of the table -->"
BEHAVIOURS = (
    "stream", "whole", "tools", "structured", "usage", "error before", "error after", "stop", "disconnect", "resume",
    "batch",
)  # fmt: skip
#: What a client cannot be asked for, and why; said below the table.
NOT_ITS_JOB = "–"


def judged() -> dict[str, set[str]]:
    """By client, what a test proves of it."""
    found: dict[str, set[str]] = {}
    for file in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"tests.sdk.{file.stem}")
        for value in vars(module).values():
            for mark in getattr(value, "pytestmark", []) if callable(value) else []:
                if mark.name == "judge":
                    client, behaviour = mark.args
                    assert behaviour in BEHAVIOURS, behaviour
                    found.setdefault(client, set()).add(behaviour)
    return found


def table() -> str:
    """The table as it stands in the page."""
    rows = [f"| client | {' | '.join(BEHAVIOURS)} |", "|---" * (len(BEHAVIOURS) + 1) + "|"]
    for client, proven in sorted(judged().items(), key=lambda item: item[0].lower()):
        cells = ["yes" if behaviour in proven else NOT_ITS_JOB for behaviour in BEHAVIOURS]
        rows.append(f"| {client} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Put the table into the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
