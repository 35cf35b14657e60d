"""Owns the part in which answers are left in every way and phase: how soon the engine, by its own account, is free."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp

from tests.drill.engines.deaths import NO_END
from tests.drill.engines.findings import Finding
from tests.drill.engines.gauges import Gauges, Load, until
from tests.drill.engines.ledger import EnginesLedger
from tests.drill.engines.people import PagePerson, page_session
from tests.drill.engines.stage import ANSWER_S, Stage
from tests.drill.plan import Question
from tests.drill.sites import process_of

Phase = Literal["queued", "prefill", "decode"]
Way = Literal["stop", "disconnect", "caller gone", "superseded", "timer", "shutdown"]
#: A way, a phase, and settings of the site that is asked.
Cell = tuple[Way, Phase, Mapping[str, str]]

FREE_S = 1.0
#: What the engine works on at a time.
SLOTS = 4
#: vLLM's row says more, so that one more waits in vLLM itself. llama.cpp does not notice that who waits in it has
#: gone, until a slot is free: its row says what it has, and one more waits with us.
ROW_SLOTS = {"vllm": 16, "llamacpp": SLOTS}
#: Long enough to be met in the middle of reading it, and new to any cache.
PREFILL_NUMBERS = 260
TRIES = 4
BEGUN_TOKENS = 3
ENDS: Mapping[Way, tuple[str, Sequence[str]]] = {
    "stop": ("cancelled", ["api"]),
    "disconnect": ("abandoned", ["disconnected"]),
    "caller gone": ("abandoned", ["disconnected"]),
    "superseded": ("cancelled", ["superseded"]),
    "timer": ("timed_out", ["queue", "ttft", "total"]),
    "shutdown": ("truncated", ["relay_lost"]),
}
FIRST_TOKEN = {"TTFT_TIMEOUT_S": "0.4"}
#: Those who fill the engine must not run into the timer that is looked at.
SLOT_OR_END = {"QUEUE_TIMEOUT_S": "0.5", "TOTAL_TIMEOUT_S": "6"}
#: Longer than any timer here; beside a long prompt there is less room.
LONG_TOKENS, REST_TOKENS = 1500, 500


def cells_of(kind: str) -> list[Cell]:
    """All, in an order that starts the second web process anew as seldom as possible."""
    ways: list[Way] = ["stop", "disconnect", "caller gone", "superseded"]
    phases: list[Phase] = ["queued", "prefill", "decode"]
    return [
        *[(way, phase, {}) for way in ways for phase in phases],
        ("shutdown", "queued", {}),
        ("timer", "prefill", FIRST_TOKEN),
        ("timer", "queued", FIRST_TOKEN if kind == "vllm" else SLOT_OR_END),
        ("timer", "decode", SLOT_OR_END),
        ("shutdown", "decode", SLOT_OR_END),
        ("shutdown", "prefill", {}),
    ]


class Missed(Exception):
    """The answer was past its phase when it was left; it is tried again."""


@dataclass(frozen=True, slots=True)
class Left:
    """One answer that was left: how long the engine still had it, and how its row tells it."""

    way: Way
    phase: Phase
    freed_s: float
    row: Mapping[str, Any]

    @property
    def faults(self) -> list[str]:
        """What of the promise does not hold."""
        state, reasons = ENDS[self.way]
        ended = (self.row["end_state"], self.row["end_reason"])
        lines = [f"free after {self.freed_s * 1000:.0f} ms"] if self.freed_s > FREE_S else []
        lines += [f"ended {ended}"] if ended[0] != state or ended[1] not in reasons else []
        # One that is released has no end here, so nobody to whom its abort would be proven.
        was_there = self.row["engine_id"] is not None and self.way != "shutdown"
        lines += ["unproven"] if was_there and not self.row["abort_proven"] else []
        return [f"{self.phase}: {line}" for line in lines]


@dataclass(slots=True)
class Freeing:
    """Asks at the second site. ``waits_with_us``: who finds no slot waits there, and not in the engine."""

    stage: Stage
    web: aiohttp.ClientSession
    gauges: Gauges
    model: str
    waits_with_us: bool
    page: PagePerson
    chance: random.Random

    async def leave(self, way: Way, phase: Phase) -> Left:
        """One answer, left in that way in that phase; tried again where it was past it already."""
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._leave(way, phase)
            except Missed:
                if not tries_left:
                    raise
            except TimeoutError as late:
                raise TimeoutError(f"{way} in {phase}: {late}") from late
        raise AssertionError("unreachable")

    async def _leave(self, way: Way, phase: Phase) -> Left:
        await self.gauges.until(lambda load: load == Load(0, 0))
        async with self._filled(SLOTS if phase == "queued" else 0) as fillers:
            asked_at = time.monotonic()
            question = self._question(way, phase)
            reading = asyncio.create_task(self._read(way, question))
            try:
                await self._until_in(phase, question, fillers)
                left_at = await self._act(way, phase, question, reading, asked_at)
                left_with = 0 if way == "shutdown" and self.waits_with_us else fillers
                if phase == "queued" and self.waits_with_us and way != "shutdown":
                    await self._ended(question)
                freed_at = await self.gauges.until(lambda load: load == Load(left_with, 0))
                row = await self._ended(question)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        if phase != "decode" and row["sent_tokens"]:
            raise Missed(f"{way} in {phase}: {row['sent_tokens']} tokens were there already")
        return Left(way, phase, max(0.0, freed_at - left_at), row)

    def _question(self, way: Way, phase: Phase) -> Question:
        text, max_tokens = "Write a long story.", LONG_TOKENS
        if phase == "prefill":
            text = " ".join(str(self.chance.randrange(1000, 9999)) for _ in range(PREFILL_NUMBERS))
            max_tokens = REST_TOKENS
        fields = {"max_tokens": max_tokens, **({} if way == "superseded" else NO_END)}
        return self.stage.question(self.model, text=text, fields=fields, stream=way != "caller gone")

    async def _read(self, way: Way, question: Question) -> None:
        if way == "superseded":
            await self.page.ask_anew(question)
        else:
            await self.stage.person(self.web, question, self.stage.two).read(0, ANSWER_S)

    async def _until_in(self, phase: Phase, question: Question, fillers: int) -> None:
        if phase == "queued":
            await until(self._has_row(question), ANSWER_S, "the question")
            await self.gauges.until(lambda load: load == Load(fillers, 0 if self.waits_with_us else 1))
        elif phase == "prefill":
            await self.gauges.until(lambda load: load.running == 1)
        else:
            await until(self._has_made_or_ended(question), ANSWER_S, "the answer")
            if self.stage.made_tokens(question) < BEGUN_TOKENS:
                raise Missed("it was over before it had begun")

    def _has_row(self, question: Question) -> Callable[[], Awaitable[bool]]:
        async def asked() -> bool:
            return bool(await asyncio.to_thread(self.stage.ids_of, question))

        return asked

    def _has_made_or_ended(self, question: Question) -> Callable[[], Awaitable[bool]]:
        """Some of the answer is there; or a timer was faster, where the machine was busy."""

        async def asked() -> bool:
            if await asyncio.to_thread(self.stage.made_tokens, question) >= BEGUN_TOKENS:
                return True
            ids = await asyncio.to_thread(self.stage.ids_of, question)
            return bool(ids) and (await asyncio.to_thread(self.stage.row_of, question))["end_state"] is not None

        return asked

    async def _act(
        self, way: Way, phase: Phase, question: Question, reading: asyncio.Task[None], asked_at: float
    ) -> float:
        """Leave the answer; returns the moment from which the engine's time counts."""
        left_at = time.monotonic()
        match way:
            case "stop":
                headers = {"Idempotency-Key": question.key}
                await self._post("/v1/responses/cancel", headers=headers)
            case "disconnect" | "caller gone":
                reading.cancel()
            case "superseded":
                await self.page.ask(self.stage.question("elsewhere", text="Enough."))
            case "timer":
                left_at = asked_at + self._limit_s(phase)
            case "shutdown":
                process_of(self.stage.two).popen.send_signal(signal.SIGTERM)
        return left_at

    def _limit_s(self, phase: Phase) -> float:
        waits = "QUEUE" if self.waits_with_us else "TTFT"
        name = {"queued": waits, "prefill": "TTFT", "decode": "TOTAL"}[phase]
        return float(self.stage.two_env[f"{name}_TIMEOUT_S"])

    async def _post(self, path: str, **options: Any) -> None:
        async with self.web.post(self.stage.two.url + path, **options) as answer:
            await answer.read()

    async def _ended(self, question: Question) -> dict[str, Any]:
        async def has_end() -> bool:
            return (await asyncio.to_thread(self.stage.row_of, question))["end_state"] is not None

        await until(has_end, 20, f"the end of {question.key}")
        return self.stage.row_of(question)

    @asynccontextmanager
    async def _filled(self, count: int) -> AsyncIterator[int]:
        """All slots of the engine work on endless answers, at the first site where they can be."""
        fields = {"max_tokens": LONG_TOKENS, **NO_END}
        site = self.stage.two if self.waits_with_us else self.stage.one
        asked = [self.stage.question(self.model, fields=fields) for _ in range(count)]
        people = [self.stage.person(self.web, question, site) for question in asked]
        reading = [asyncio.create_task(person.read(0, ANSWER_S)) for person in people]
        try:
            await self.gauges.until(lambda load: load == Load(count, 0))
            yield count
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)


ENGINES = {"llamacpp": "llama.cpp", "vllm": "vLLM"}


def model_of(kind: str) -> str:
    return f"smollm2-{kind}"


def register(stage: Stage, kind: str, url: str) -> None:
    """A row of the engine, and one of another to which a new message may go."""
    stage.register(model_of(kind), kind, [url], slots=ROW_SLOTS[kind], context_tokens=2048)
    script = {"outputs": [{"text": "Enough."}]}
    stage.register("elsewhere", "scripted", [""], options=[{"script": script}], name=f"elsewhere-{kind}")


async def leave_answers(stage: Stage, kind: str, url: str, cells: Sequence[Cell]) -> list[Finding]:
    """All these cells against one engine of that kind, which works for nobody else meanwhile."""
    await stage.restart_two()
    session = await asyncio.to_thread(page_session, stage.two)
    left: list[Left] = []
    async with stage.web() as web:
        page = PagePerson(web, stage.two, session)
        gauges, chance = Gauges(web, kind, url), random.Random(stage.seed)
        freeing = Freeing(stage, web, gauges, model_of(kind), kind == "llamacpp", page, chance)
        for way, phase, env in cells:
            await stage.restart_two(env)
            left.append(await freeing.leave(way, phase))
    by_way = {way: [one for one in left if one.way == way] for way in ENDS}
    return [_finding(ENGINES[kind], way, of_it) for way, of_it in by_way.items() if of_it]


def _finding(engine: str, way: Way, left: Sequence[Left]) -> Finding:
    times = ", ".join(f"{one.phase} {one.freed_s * 1000:.0f} ms" for one in left)
    faults = [line for one in left for line in one.faults]
    proven = "" if way == "shutdown" else ", proven"
    promised = f"free within {FREE_S:g} s{proven}, {ENDS[way][0]}"
    return Finding("a", engine, way, "; ".join([f"free after: {times}", *faults]), promised, not faults)


async def llama(stage: Stage, some: Sequence[Cell] = ()) -> list[Finding]:
    """These cells, or all, on a real llama.cpp worker."""
    worker = stage.llama()
    register(stage, "llamacpp", worker.url)
    ledger = EnginesLedger(stage, "h", "llama.cpp")
    await ledger.open()
    findings = await leave_answers(stage, "llamacpp", worker.url, some or cells_of("llamacpp"))
    async with stage.web() as web:
        await Gauges(web, "llamacpp", worker.url).until(lambda load: load == Load(0, 0))
    findings.append(await ledger.compared([f"{model_of('llamacpp')}-0"], "its books after all that"))
    worker.kill()
    return findings
