"""Owns what a disconnect policy says and how it is written. Does not count readers or keep time."""

from dataclasses import dataclass

ABORT = "abort"
GRACE = "grace"
BACKGROUND = "background"


class PolicyError(ValueError):
    """A policy that cannot be read; the message names what was seen and what is allowed."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How long a response may run with nobody reading.

    ``patience_s`` is 0 for abort, N for ``grace=N`` and None for background (for ever).
    """

    kind: str
    patience_s: float | None

    def __str__(self) -> str:
        """As parse_policy reads it: in plain digits, for rows are read back after a restart."""
        return f"grace={self.patience_s:.3f}".rstrip("0").rstrip(".") if self.kind == GRACE else self.kind

    @property
    def survives_owner(self) -> bool:
        """Whether an answer is carried on after its owner died with nobody reading."""
        return self.kind != ABORT


def parse_policy(text: str, max_grace_s: float) -> Policy:
    """Read ``abort``, ``grace=N`` (seconds to the millisecond, 0 < N <= max_grace_s) or ``background``.

    Raises PolicyError.
    """
    if text == ABORT:
        return Policy(ABORT, 0.0)
    if text == BACKGROUND:
        return Policy(BACKGROUND, None)
    kind, _, number = text.partition("=")
    if kind == GRACE and number.isascii() and number.replace(".", "", 1).isdigit():
        grace_s = round(float(number), 3)
        if 0 < grace_s <= max_grace_s:
            return Policy(GRACE, grace_s)
    raise PolicyError(
        f"must be abort, grace=N with N seconds above 0 and at most {max_grace_s:g}, or background; got {text[:80]!r}"
    )
