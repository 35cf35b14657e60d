"""Owns one run of the drill on a site that is up: people and faults at their times, the settling, the judgement."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from tests.drill import books, client, laws, stopping
from tests.drill.plan import Fault, Plan, Question
from tests.drill.reconciling import Ledger
from tests.drill.records import Record, StopRecord
from tests.drill.sites import END_S, Cluster, complaints, inflict, process_of
from tests.e2e.site import Site

#: From the last end to free slots: the engine notices a closed socket at its next step.
IDLE_S = 5
#: What a process says when it lets go of responses that still ran; the last one has none.
RELEASED = "released for another process"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a reader bears silence and a whole answer, and how long all may take to end after the last fault."""

    silence_s: float
    answer_s: float
    ended_s: float


@dataclass(slots=True)
class Result:
    """What a run was and what it broke."""

    readers: list[Record] = field(default_factory=list)
    stops: list[StopRecord] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    responses: int = 0
    adopted: int = 0
    took_s: float = 0.0
    ended_after_s: float = 0.0
    load: float = 0.0
    books: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


class Drill:
    """One plan, played on running sites."""

    def __init__(self, cluster: Cluster, plan: Plan, patience: Patience):
        self._sites = cluster.sites
        self._key = cluster.key
        self._urls = [site.url for site in cluster.sites]
        self._plan = plan
        self._patience = patience
        self._result = Result()
        self._ledger = Ledger(self._sites[0])
        self._began_at = self._last_fault_at = 0.0

    async def run(self) -> Result:
        await asyncio.to_thread(self._ledger.open)
        self._began_at = time.monotonic()
        async with client.session(self._key) as web, asyncio.TaskGroup() as group:
            for process in range(len(self._sites)):
                group.create_task(self._torment(process))
            for question in self._plan.questions:
                group.create_task(self._ask(question, web))
        await self._settle()
        self._judge()
        return self._result

    async def _at(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, self._began_at + at_s - time.monotonic()))

    async def _torment(self, process: int) -> None:
        for fault in self._plan.faults:
            if fault.process == process:
                await self._at(fault.at_s)
                await self._inflict(process, fault)

    async def _inflict(self, process: int, fault: Fault) -> None:
        await inflict(self._sites[process], fault)
        self._last_fault_at = time.monotonic()
        self._result.faults[fault.kind] += 1

    async def _ask(self, question: Question, web: aiohttp.ClientSession) -> None:
        await self._at(question.at_s)
        answer_s = self._patience.answer_s
        people = [self._person(web, question) for _ in range(1 + question.has_twin)]
        async with asyncio.TaskGroup() as group:
            for nth, person in enumerate(people):
                group.create_task(person.read((question.first + nth) % len(self._urls), answer_s))
            if question.stop:
                pressed = group.create_task(stopping.stop(people[0], web, self._urls, answer_s / 2))
        self._result.readers.extend(person.record for person in people)
        if question.stop:
            self._result.stops.append(pressed.result())

    def _person(self, web: aiohttp.ClientSession, question: Question) -> client.Person:
        return client.Person(web, self._urls, question, silence_s=self._patience.silence_s)

    async def _settle(self) -> None:
        """Wait for what still runs; nothing may be left without a living owner, or at all, after ``ended_s``."""
        until = max(self._last_fault_at, self._began_at) + self._patience.ended_s
        while (left := await asyncio.to_thread(books.unended, self._sites[0])) and time.monotonic() < until:
            await asyncio.sleep(0.2)
        living = {process_of(site).popen.pid for site in self._sites}
        for response_id, pid in left:
            owner = "a living owner" if pid in living else "no living owner"
            self._result.broken.append(f"{response_id}: not ended {self._patience.ended_s:g} s after all, with {owner}")
        self._result.ended_after_s = time.monotonic() - max(self._last_fault_at, self._began_at)

    def _judge(self) -> None:
        result, kept = self._result, books.read(self._sites[0])
        result.broken += laws.broken_laws(kept, result.readers, result.stops)
        result.broken += self._engines()
        compared = self._ledger.compare(self._engine_names())
        result.books, result.broken = compared.lines, result.broken + compared.broken
        result.broken += _processes(self._sites)
        result.responses = len(kept.rows)
        result.ends = Counter(row["end_state"] or "none" for row in kept.rows.values())
        result.adopted = sum(any(event.kind == "continued" for event in log) for log in kept.logs.values())
        result.took_s = time.monotonic() - self._began_at
        result.load = os.getloadavg()[0]
        for record in result.readers:
            result.faults.update(reset=record.resets, stall=record.stalls, left=record.has_left)
            result.faults["reconnect"] += max(0, record.connections - 1)
        result.faults["twin"] = sum(question.has_twin for question in self._plan.questions)
        result.faults["stop"] = sum(record.answer is not None for record in result.stops)

    def _engines(self) -> list[str]:
        """Their slots are free."""
        deadline = time.monotonic() + IDLE_S
        while (busy := self._slots_busy()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [f"llama.cpp: {busy} slots are still busy"] if busy else []

    def _slots_busy(self) -> int:
        return self._sites[0].slots_busy()

    def _engine_names(self) -> list[str]:
        """Those whose counters are compared with the rows."""
        return ["llama"]


def _processes(sites: Sequence[Site]) -> list[str]:
    """No relay is left, and no process said that something of ours broke."""
    lines: list[str] = []
    for nth, site in enumerate(sites):
        code = process_of(site).end(timeout_s=END_S)
        lines += [f"process {nth}: ended with {code}"] if code else []
        lines += [f"process {nth}: {line}" for line in process_of(site).lines if RELEASED in line]
        lines += [f"process {nth}: {line}" for line in complaints(site.data_dir / "web.log")]
    return lines
