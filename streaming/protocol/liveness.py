"""Owns the judgement which processes are dead, from counters they raise. Knows no clock: times come in."""

from collections.abc import Mapping
from dataclasses import dataclass

UNCHANGED_READS = 5
UNCHANGED_S = 10.0


@dataclass(slots=True)
class _Seen:
    beat: int
    since_s: float
    reads: int = 1


class Judge:
    """Judges other processes by whether their beat counter changes; no wall clock decides anything.

    A process is dead when its counter stood still over at least ``unchanged_reads`` successful reads that
    span at least ``unchanged_s`` seconds of the judge's own monotonic clock, since the judge's last failed
    read: an outage of the database, or a judge that was paused, kills nobody.
    """

    def __init__(self, unchanged_reads: int = UNCHANGED_READS, unchanged_s: float = UNCHANGED_S):
        self._unchanged_reads = unchanged_reads
        self._unchanged_s = unchanged_s
        self._seen: dict[str, _Seen] = {}
        self._read_at_s: float | None = None
        self._reads = 0
        self._missed: dict[str, int] = {}

    def read(self, beats: Mapping[str, int], now_s: float) -> None:
        """A successful read of all counters at ``now_s`` (monotonic seconds)."""
        if self._read_at_s is not None and now_s - self._read_at_s > self._unchanged_s:
            self.failed()
        self._read_at_s = now_s
        self._reads += 1
        self._missed = {process: reads for process, reads in self._missed.items() if process not in beats}
        self._seen = {process: self._judged(process, beat, now_s) for process, beat in beats.items()}

    def _judged(self, process: str, beat: int, now_s: float) -> _Seen:
        seen = self._seen.get(process)
        if seen is None or seen.beat != beat:
            return _Seen(beat, now_s)
        seen.reads += 1
        return seen

    def failed(self) -> None:
        """A read failed, or did not happen for long: every count starts over."""
        self._seen.clear()
        self._missed.clear()
        self._read_at_s = None

    def is_dead(self, process: str | None) -> bool:
        """Whether the process is known to be dead; a released response (None) has no owner to wait for.

        One without a counter has said goodbye, or has only just come: it is dead if the next read misses it too.
        """
        if process is None:
            return True
        if self._read_at_s is None:
            return False
        seen = self._seen.get(process)
        if seen is None:
            return self._reads > self._missed.setdefault(process, self._reads)
        return seen.reads >= self._unchanged_reads and self._read_at_s - seen.since_s >= self._unchanged_s
