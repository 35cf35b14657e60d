"""Owns what is made of a recording: the figures of an answer and their limits. Measures nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.page.trace import Recording

FRAME_MS = 1000 / 60
WINDOW_TOKENS = 1000
MARK = "tokens-"

#: The most that the last window may cost against the first, by answer.
RATIOS = {"mixed": 1.5, "fence": 2.5, "paragraph": 2.5}
LONGEST_TASK_MS = 50.0
P95_FRAME_MS = 8.0
#: Of a key on a CPU that is four times slower: from the browser's having it to the page's.
P95_KEY_WAIT_MS = 100.0
#: There, from one painting of the growing text to the next.
P95_PAINT_GAP_MS = 250.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value and the limit that it is held to; None where it is only shown."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def is_broken(self) -> bool:
        return self.limit is not None and self.value > self.limit


def figures(answer: str, recording: Recording) -> list[Figure]:
    """Of one answer, from its first delta to its last."""
    edges = [at_ms for _, at_ms in sorted((int(name.removeprefix(MARK)), at) for name, at in recording.marks.items())]
    windows = windows_ms(recording, edges)
    start_ms, end_ms = edges[0], edges[-1]
    tasks = list(recording.between(start_ms, end_ms))
    is_long_block = answer != "mixed"
    return [
        Figure("last against first 1,000 deltas", windows[-1] / windows[0], "", RATIOS[answer]),
        Figure("longest task", max(task.busy_ms for task in tasks), "ms", LONGEST_TASK_MS),
        Figure(
            "p95 of a frame",
            percentile(frames_ms(recording, start_ms, end_ms), 0.95),
            "ms",
            None if is_long_block else P95_FRAME_MS,
        ),
        Figure("main thread busy", 100 * sum(t.busy_ms for t in tasks) / (end_ms - start_ms), "%"),
    ]


def slow_figures(key_waits_ms: Sequence[float], painted_ms: Sequence[float]) -> list[Figure]:
    """Of an answer on a slow CPU: what somebody waits who types meanwhile, and how often its text was painted."""
    gaps_ms = [later - earlier for earlier, later in pairwise(painted_ms)]
    return [
        Figure("p95 of a key's wait", percentile(key_waits_ms, 0.95), "ms", P95_KEY_WAIT_MS),
        Figure("longest wait of a key", max(key_waits_ms), "ms"),
        Figure("p95 between two paints", percentile(gaps_ms, 0.95), "ms", P95_PAINT_GAP_MS),
    ]


def windows_ms(recording: Recording, edges: Sequence[float]) -> list[float]:
    """Busy milliseconds of each whole window of deltas."""
    return [recording.busy_ms(start, end) for start, end in pairwise(edges)]


def frames_ms(recording: Recording, start_ms: float, end_ms: float) -> list[float]:
    """Busy milliseconds of each sixtieth of a second."""
    frames = [0.0] * int((end_ms - start_ms) / FRAME_MS)
    for task in recording.between(start_ms, start_ms + len(frames) * FRAME_MS):
        frames[min(len(frames) - 1, int((task.at_ms - start_ms) / FRAME_MS))] += task.busy_ms
    return frames


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
