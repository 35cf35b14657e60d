"""Owns one run of the drill through nginx: the people of the plan, the cluster's faults in turn, the same judgement."""

import asyncio
import random
import time

import httpx

from tests.drill.cluster.faults import NAMES, in_turn
from tests.drill.cluster.up import Up
from tests.drill.plan import Plan
from tests.drill.run import Drill, Patience
from tests.drill.sites import Cluster


class ClusterDrill(Drill):
    """Everybody asks at one address; what is done is done to one part after the other."""

    def __init__(self, up: Up, plan: Plan, patience: Patience, *, seed: int, span_s: float, pause_s: float):
        super().__init__(Cluster(list(up.stack.sites), up.stack.key), plan, patience)
        self._urls = [up.stack.url]
        self._up = up
        self._seed = seed
        self._span_s = span_s
        self._pause_s = pause_s

    def _slots_busy(self) -> int:
        return sum(
            slot["is_processing"]
            for one in self._up.engines
            for slot in httpx.get(f"{one.url}/slots", timeout=60).json()
        )

    def _engine_names(self) -> list[str]:
        return [engine.name for engine in self._up.engines]

    async def _torment(self, process: int) -> None:
        """The base asks once for each process; the first time does it all, for the span and at least one round."""
        if process:
            return
        chance = random.Random(self._seed)
        await self._at(chance.uniform(1, 2))
        for name, inflict in in_turn(self._seed, self._up):
            await asyncio.to_thread(inflict)
            self._last_fault_at = time.monotonic()
            self._result.faults[name] += 1
            is_over = self._last_fault_at - self._began_at > self._span_s
            if is_over and set(NAMES) <= set(self._result.faults):
                return
            await asyncio.sleep(chance.uniform(0.5, 1) * self._pause_s)
