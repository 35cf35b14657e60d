"""Owns what a seed means: who asks what when, and what is done to whom. Pure: does nothing itself."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

StopWay = Literal["first", "other", "key"]
FaultKind = Literal["kill", "pause", "terminate"]

#: Characters of several bytes, each byte a token of its own: a death falls into the middle of one.
CUT_CHARACTERS = "".join(f"{n} नमस्ते 👩‍💻 " for n in range(12))


def numbered(count: int, padding: str = "") -> list[dict[str, Any]]:
    return [{"text": f"w{number}{padding} "} for number in range(count)]


#: What each scripted model says: the script stands in the engine's row, so that any process can carry it on.
SCRIPTS: dict[str, dict[str, Any]] = {
    "short": {"outputs": numbered(40), "delay_s": 0.04},
    "long": {"outputs": numbered(160), "delay_s": 0.04},
    "bytes": {"outputs": [{"bytes": f"{byte:02x}"} for byte in CUT_CHARACTERS.encode()], "delay_s": 0.008},
    "pages": {"outputs": numbered(15, "-" + "page" * 1200), "repeat": 4, "delay_s": 0.05},
    "lost": {"outputs": numbered(100), "delay_s": 0.02, "fault": {"kind": "lost", "after": 20, "times": 1000}},
}
#: Its outputs are text, each one token: as ids its answer would be longer than any may be.
TEXT_MODEL = "pages"
LLAMA = "smollm2"
LLAMA_TOKENS = 40


def whole_text(model: str) -> str:
    """What an undisturbed run of a scripted model says."""
    outputs = SCRIPTS[model]["outputs"] * SCRIPTS[model].get("repeat", 1)
    return b"".join(bytes.fromhex(o["bytes"]) if "bytes" in o else o["text"].encode() for o in outputs).decode()


def whole_tokens(model: str) -> int:
    """How many tokens that is: with the byte tokenizer one a byte, as text one an output."""
    if model == TEXT_MODEL:
        return len(SCRIPTS[model]["outputs"]) * int(SCRIPTS[model].get("repeat", 1))
    return len(whole_text(model).encode())


@dataclass(frozen=True, slots=True)
class Stop:
    """A person stops the response so long after asking, at that process or by the idempotency key."""

    after_s: float
    way: StopWay


@dataclass(frozen=True, slots=True)
class Question:
    """One response: what is asked, and what its reader does. Numbers of frames count over all its connections.

    ``fields`` go into the request beside what every question has.
    """

    key: str
    model: str
    policy: str = "abort"
    stream: bool = True
    text: str = "Tell me of the harbour."
    fields: Mapping[str, Any] = field(default_factory=dict)
    at_s: float = 0.0
    first: int = 0
    has_twin: bool = False
    stop: Stop | None = None
    resets_after: tuple[int, ...] = ()
    stall: tuple[int, float] | None = None
    leaves_after: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """Done to a web process; ``for_s`` is how long it stays paused, or gone before it is started again."""

    at_s: float
    process: int
    kind: FaultKind
    for_s: float


@dataclass(frozen=True, slots=True)
class Size:
    """How much a run is: so many responses, asked within so long, on so many processes; pauses up to so long."""

    responses: int
    span_s: float
    processes: int
    longest_pause_s: float
    longest_stall_s: float
    between_faults_s: tuple[float, float] = (5.0, 11.0)


@dataclass(frozen=True, slots=True)
class Plan:
    questions: list[Question]
    faults: list[Fault]


def plan(seed: int, size: Size) -> Plan:
    """The same plan for the same seed and size; how its parts meet is up to the machine."""
    chance = random.Random(seed)
    questions = [_question(chance, f"drill-{seed}-{number}", size) for number in range(size.responses)]
    faults = [fault for process in range(size.processes) for fault in _faults(chance, process, size)]
    return Plan(sorted(questions, key=lambda q: q.at_s), sorted(faults, key=lambda f: f.at_s))


def _question(chance: random.Random, key: str, size: Size) -> Question:
    stalls = chance.random() < 0.12
    model = "pages" if stalls else chance.choices([LLAMA, "short", "long", "bytes", "lost"], [15, 30, 25, 20, 5])[0]
    stream = stalls or chance.random() < 0.8
    return Question(
        key=key,
        at_s=chance.uniform(0, size.span_s),
        model=model,
        fields={"max_tokens": LLAMA_TOKENS} if model == LLAMA else {},
        policy=chance.choice(["abort", "abort", "background", *(f"grace={n}" for n in (2, 4, 8))]),
        stream=stream,
        first=chance.randrange(size.processes),
        has_twin=chance.random() < 0.12,
        stop=_stop(chance) if chance.random() < 0.2 else None,
        resets_after=tuple(sorted(chance.sample(range(1, 40), chance.choice([0, 0, 0, 1, 1, 2, 3])))),
        stall=(chance.randint(2, 10), chance.uniform(0.5, size.longest_stall_s)) if stalls else None,
        leaves_after=chance.randint(1, 30) if chance.random() < 0.08 else None,
        seed=chance.getrandbits(32),
    )


def _stop(chance: random.Random) -> Stop:
    return Stop(chance.choice([0.0, chance.uniform(0, 0.5), chance.uniform(0.5, 4)]), chance.choice(_WAYS))


_WAYS: list[StopWay] = ["first", "other", "key"]
_KINDS: list[FaultKind] = ["kill", "pause", "terminate"]


def _faults(chance: random.Random, process: int, size: Size) -> list[Fault]:
    faults: list[Fault] = []
    at_s = chance.uniform(2, 6)
    while at_s < size.span_s:
        kind = chance.choice(_KINDS)
        for_s = chance.uniform(0.3, size.longest_pause_s) if kind == "pause" else chance.uniform(0, 2)
        faults.append(Fault(at_s, process, kind, for_s))
        at_s += for_s + chance.uniform(*size.between_faults_s)
    return faults
