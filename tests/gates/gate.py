"""Owns gates as a test has them: where a script waits, and that it waits no longer. Knows no site and no engine."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Gate:
    """Closed until it is opened; each has a name of its own, so that nobody goes through another's."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._file = folder / f"gate-{secrets.token_hex(8)}"

    @property
    def step(self) -> dict[str, str]:
        """The entry of a script's outputs that waits here."""
        return {"gate": self._file.name}

    def open(self) -> None:
        """Who waits here goes on, and nobody waits here until it is closed."""
        self._file.touch()

    def close(self) -> None:
        """Whoever comes from now on waits here."""
        self._file.unlink(missing_ok=True)


def stairs(steps: Sequence[Sequence[dict[str, Any]]], folder: Path) -> tuple[list[dict[str, Any]], list[Gate]]:
    """The outputs of all steps with a gate between each two, and those gates."""
    gates = [Gate(folder) for _ in steps[1:]]
    outputs = [*steps[0]]
    for gate, step in zip(gates, steps[1:], strict=True):
        outputs += [gate.step, *step]
    return outputs, gates
