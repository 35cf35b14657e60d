"""Owns the histogram of gaps between outputs, which takes a whole response's at once. Measures none itself."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from threading import Lock

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from .registry import REGISTRY, bounded

NAME = "chat_itl_seconds"
#: Upper bounds in seconds.
BOUNDS_S = (0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BOUNDS_MS = tuple(bound * 1000 for bound in BOUNDS_S)


class Gaps(Collector):
    """Per model how many gaps were at most so long. A response adds its own when it ends: a bisection a bucket."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of: dict[str, tuple[list[int], float]] = {}

    def add(self, model: str, ordered_ms: Sequence[float]) -> None:
        """A response's gaps in milliseconds, in rising order."""
        if not ordered_ms:
            return
        below = [bisect_right(ordered_ms, bound) for bound in _BOUNDS_MS] + [len(ordered_ms)]
        seconds = sum(ordered_ms) / 1000
        with self._lock:
            model = bounded("model", model)
            counts, total = self._of.get(model, ([0] * len(below), 0.0))
            self._of[model] = [old + new for old, new in zip(counts, below, strict=True)], total + seconds

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(NAME, "Between two outputs of an engine, within one answer.", labels=["model"])
        names = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
        with self._lock:
            for model, (counts, seconds) in self._of.items():
                family.add_metric([model], list(zip(names, counts, strict=True)), seconds)
        yield family


GAPS = Gaps()
REGISTRY.register(GAPS)
