"""Owns what was seen of one hop: when events left us and when they came, and how a silence ended. Judges nothing."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrival:
    """Event ``number`` left the server at ``sent_s`` of its clock and was read here at ``read_s`` of ours."""

    number: int
    sent_s: float
    read_s: float


@dataclass(frozen=True, slots=True)
class Trickle:
    """A stream of ``expected`` small events, one each ``interval_s``.

    ``encoding`` is its Content-Encoding. ``trouble`` says why there is no whole stream; empty when there is one.
    """

    interval_s: float
    expected: int
    arrivals: Sequence[Arrival] = ()
    encoding: str = "identity"
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Silence:
    """A stream that we left silent for ``asked_s`` in its middle.

    ``silent_s`` is how long nothing came here until it went on, or until ``trouble`` ended it.
    """

    asked_s: float
    silent_s: float
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Hop:
    """All that was seen through one address. None where it was not tried."""

    url: str
    trickle: Trickle
    silence: Silence | None = None
