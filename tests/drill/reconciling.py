"""Owns the product's own ledger over a drill: opened at its start, compared at its end. Waits for no engine."""

import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.child import ROOT
from tests.e2e.site import Site

#: All clocks of a drill are one.
COMMAND = ("reconcile", "--json", "--skew", "0")


@dataclass(frozen=True, slots=True)
class Compared:
    """What the ledger said: of each engine a line, and what is not in order."""

    engines: list[dict[str, Any]]
    broken: list[str]

    @property
    def lines(self) -> list[str]:
        return [f"{one['subject']} made {one['seen']}, the rows {one['low']} to {one['high']}" for one in self.engines]

    @property
    def is_exact(self) -> bool:
        """Whether the rows leave no doubt, and the engines agree."""
        return not self.broken and all(one["low"] == one["seen"] == one["high"] for one in self.engines)


class Ledger:
    """Of the site's database, over the time between ``open`` and ``compare``, in which nothing runs at either end."""

    def __init__(self, site: Site):
        self._site = site
        self._opened_at = datetime.now(UTC)

    def open(self) -> None:
        """Read the counters of the engines that there are."""
        self._opened_at = datetime.now(UTC)
        self._look()

    def compare(self, engines: Collection[str]) -> Compared:
        """All books; those of these engines must be among them. Drift is what ``reconcile`` says is drift."""
        checks = self._look("--since", self._opened_at.isoformat())
        compared = [check for check in checks if check["kind"] == "engine" and check["subject"] in engines]
        missing = set(engines) - {check["subject"] for check in compared}
        # Of other engines, which other parts have killed, there may be nothing to be read.
        drifts = [check for check in checks if check["drift"] and (check["kind"] != "engine" or check in compared)]
        return Compared(compared, [*map(_line, drifts), *(f"ledger: {name} was not compared" for name in missing)])

    def _look(self, *options: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "manage.py", *COMMAND, *options],
            cwd=ROOT, env=self._site.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        checks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not checks:
            raise RuntimeError(f"reconcile said nothing: {done.stderr[-1000:]}")
        return checks


def _line(check: dict[str, Any]) -> str:
    return f"ledger: {check['kind']} {check['subject']} drifts by {check['drift']:+d}: {check['message']}"
