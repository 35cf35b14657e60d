"""What each hop between a client and us does to a stream, judged from when its bytes came. Pure: no I/O, no clock."""

from .observed import Arrival, Hop, Silence, Trickle
from .verdict import BROKEN, BUFFERED, COMPRESSED, CUT, Finding, Verdict, judge

__all__ = [
    "BROKEN",
    "BUFFERED",
    "COMPRESSED",
    "CUT",
    "Arrival",
    "Finding",
    "Hop",
    "Silence",
    "Trickle",
    "Verdict",
    "judge",
]
