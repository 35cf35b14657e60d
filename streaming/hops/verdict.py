"""Owns the verdict on each hop: it streams, or holds bytes back, packs them, cuts a silence. Knows no words for people.

Times are compared only within one clock: an event's lag is its way from server to reader beyond that of the fastest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .observed import Arrival, Hop, Silence, Trickle

BUFFERED, COMPRESSED, CUT, BROKEN = "buffered", "compressed", "cut", "broken"

#: An event is late when it came more than this part of an interval after it could have.
LATE_INTERVALS = 0.5
#: So many late ones are no accident: lumps of two events already make every other one late.
LATE_SHARE = 0.4
#: A hop that does the same as the one before it, within this, adds nothing of its own.
SAME_S, SAME_SHARE = 1.0, 0.25


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and whether it happens at this hop or came from one nearer to us.

    ``seconds`` is for how long bytes were held, or after how long a silence was cut; ``events`` the largest lump, or
    how many came before it broke.
    """

    kind: str
    is_here: bool = True
    seconds: float = 0.0
    events: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``lag_p50_s`` and ``lag_max_s`` are of the events that came. A hop without findings streams."""

    url: str
    came: int
    expected: int
    lag_p50_s: float
    lag_max_s: float
    silent_s: float | None = None
    findings: Sequence[Finding] = field(default_factory=tuple)

    @property
    def streams(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def judge(hops: Sequence[Hop]) -> list[Verdict]:
    """One verdict for each hop; they come in order, the nearest to the server first."""
    verdicts: list[Verdict] = []
    for hop in hops:
        before = verdicts[-1].findings if verdicts else ()
        verdicts.append(_judge_one(hop, before))
    return verdicts


def _judge_one(hop: Hop, before: Sequence[Finding]) -> Verdict:
    lags = sorted(lags_of(hop.trickle.arrivals))
    findings = [*_trickle(hop.trickle), *(_silence(hop.silence) if hop.silence else ())]
    return Verdict(
        url=hop.url,
        came=len(hop.trickle.arrivals),
        expected=hop.trickle.expected,
        lag_p50_s=lags[len(lags) // 2] if lags else 0.0,
        lag_max_s=lags[-1] if lags else 0.0,
        silent_s=hop.silence.silent_s if hop.silence and not hop.silence.trouble else None,
        findings=tuple(_placed(finding, before) for finding in findings),
    )


def lags_of(arrivals: Sequence[Arrival]) -> list[float]:
    """How much later each event came than the fastest, seconds."""
    ways = [arrival.read_s - arrival.sent_s for arrival in arrivals]
    return [way - min(ways) for way in ways]


def largest_lump(trickle: Trickle) -> int:
    """The most events that came together although they had left apart."""
    largest = lump = min(1, len(trickle.arrivals))
    for earlier, later in pairwise(trickle.arrivals):
        together = later.read_s - earlier.read_s < (later.sent_s - earlier.sent_s) / 4
        lump = lump + 1 if together else 1
        largest = max(largest, lump)
    return largest


def _trickle(trickle: Trickle) -> list[Finding]:
    findings = []
    if trickle.encoding not in ("", "identity"):
        findings.append(Finding(COMPRESSED, detail=trickle.encoding))
    lags = lags_of(trickle.arrivals)
    late = [lag for lag in lags if lag > trickle.interval_s * LATE_INTERVALS]
    if len(late) > 1 and len(late) >= LATE_SHARE * len(lags):
        findings.append(Finding(BUFFERED, seconds=max(late), events=largest_lump(trickle)))
    numbers = [arrival.number for arrival in trickle.arrivals]
    if trickle.trouble:
        findings.append(Finding(BROKEN, events=len(numbers), detail=trickle.trouble))
    elif numbers != list(range(trickle.expected)):
        findings.append(Finding(BROKEN, events=len(numbers), detail="events are missing or out of order"))
    return findings


def _silence(silence: Silence) -> list[Finding]:
    return [Finding(CUT, seconds=silence.silent_s, detail=silence.trouble)] if silence.trouble else []


def _placed(finding: Finding, before: Sequence[Finding]) -> Finding:
    """The finding, marked as inherited where the hop before has it to the same extent, or worse."""
    inherited = any(_explains(earlier, finding) for earlier in before)
    return Finding(finding.kind, not inherited, finding.seconds, finding.events, finding.detail)


def _explains(earlier: Finding, finding: Finding) -> bool:
    if earlier.kind != finding.kind:
        return False
    tolerance_s = max(SAME_S, SAME_SHARE * earlier.seconds)
    if finding.kind == CUT:
        return finding.seconds >= earlier.seconds - tolerance_s
    return finding.seconds <= earlier.seconds + tolerance_s
