"""Owns which parts a run has, in which order, each with its bound in time. What a part measures is its module's."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from bench.measure import Measure
from bench.parts import crowd, idle, latency, length, readers, replay, saturation, storm
from bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    about: str
    measure: Callable[[Stage], AsyncIterator[Measure]]
    timeout_s: float


PARTS = [
    Part(idle.PART, "1,000 and 200 streams that wait: memory, threads, connections, /healthz", idle.measure, 90),
    Part(latency.PART, "50 and 200 streams at 25 chunks/s beside a bare relay, nginx, no relay", latency.measure, 240),
    Part(crowd.PART, "500 and 1,000 streams, and 20 fast ones", crowd.measure, 180),
    Part(saturation.PART, "ever more streams, until the latency runs away", saturation.measure, 150),
    Part(length.PART, "the cost of a chunk early and late in answers of 8,000 tokens", length.measure, 90),
    Part(readers.PART, "0, 1 and 16 readers of a response", readers.measure, 90),
    Part(storm.PART, "1,000 sockets reset at once, and everybody comes back", storm.measure, 120),
    Part(replay.PART, "the replay of a mebibyte, and what others feel of it", replay.measure, 60),
]
