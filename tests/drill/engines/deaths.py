"""Owns the parts in which one of two engines dies amid answers: all complete, and what was shown stays as it is."""

import asyncio
import re
from collections.abc import Sequence

from tests.drill import books
from tests.drill.books import Books
from tests.drill.client import Person
from tests.drill.engines.findings import Finding
from tests.drill.engines.gauges import until
from tests.drill.engines.ledger import EnginesLedger
from tests.drill.engines.stage import ANSWER_S, EngineProcess, Stage
from tests.drill.plan import Question

TOKENS, CUT = 100, 30
#: The demo model's end tokens: its answers end at their limit.
NO_END = {"logit_bias": {"0": -100, "2": -100}}
FAULT_RATE = 20
FAULT_TOKEN = re.compile(r" the|<\d+\.\d{4}>")
#: What the fault server says over ids, one letter each.
LETTERS = "".join(chr(ord("a") + nth % 26) for nth in range(1, TOKENS + 1))
SURVIVOR = "the books of the one that lives"
PROMISED = "all complete, no gap, shown text untouched, one end each"


async def llama_worker_dies(stage: Stage, answers: int = 8) -> list[Finding]:
    """Two workers of four slots each; one is killed when each answer has 30 tokens."""
    workers = [stage.llama(), stage.llama()]
    model = "smollm2-pair"
    stage.register(model, "llamacpp", [worker.url for worker in workers], slots=4, context_tokens=2048)
    fields = {"max_tokens": TOKENS, **NO_END}
    questions = [
        stage.question(model, text=f"Write a long story, number {nth}.", fields=fields) for nth in range(answers)
    ]
    ledger = EnginesLedger(stage, "h", "llama.cpp ×2")
    await ledger.open()
    broken, carried = await _killed(stage, workers[0], questions)
    compared = await ledger.compared([f"{model}-1"], SURVIVOR)
    workers[1].kill()
    return [_finding("b", "llama.cpp ×2", _killed_words(answers), carried, broken), compared]


async def fault_server_dies(stage: Stage, kind: str, answers: int = 100) -> list[Finding]:
    """The same with many answers, on the fault server's wire of that kind."""
    servers = [stage.fault(rate=FAULT_RATE, slots=answers) for _ in range(2)]
    model = f"fault-{kind}"
    stage.register(model, kind, [server.url for server in servers], slots=answers, context_tokens=8192)
    questions = [stage.question(model, fields={"max_tokens": TOKENS}) for _ in range(answers)]
    ledger = EnginesLedger(stage, "h", f"fault server ×2 ({kind})")
    await ledger.open()
    broken, carried = await _killed(stage, servers[0], questions)
    compared = await ledger.compared([f"{model}-1"], SURVIVOR, exact=True)
    servers[1].kill()
    for question in questions:
        text = stage.row_of(question)["output_text"]
        if not (is_joined_letters(text) if kind == "vllm" else is_whole_tokens(text)):
            broken.append(f"{question.key}: something is lost or twice: {text!r}")
    return [_finding("c", f"fault server ×2 ({kind})", _killed_words(answers), carried, broken), compared]


async def scripted_engine_dies(stage: Stage, answers: int = 100) -> list[Finding]:
    """One of two scripted engines breaks off each answer; their texts are those of a run that nothing disturbs."""
    outputs = [{"text": f"w{nth} "} for nth in range(90)] + [{"bytes": "e298"}, {"bytes": "95"}]
    script = {"outputs": outputs, "delay_s": 0.01}
    dying = {"script": {**script, "fault": {"kind": "lost", "after": CUT}}}
    whole = "".join(f"w{nth} " for nth in range(90)) + "☕"
    fields = {"slots": answers, "context_tokens": 100_000}
    stage.register("steady", "scripted", [""], options=[{"script": script}], **fields)
    stage.register("dying", "scripted", ["", ""], options=[dying, {"script": script}], **fields)
    undisturbed = stage.question("steady")
    questions = [stage.question("dying") for _ in range(answers)]
    async with stage.web() as web:
        people = [stage.person(web, question) for question in (undisturbed, *questions)]
        await stage.read_all(people)
    kept = books.read(stage.one)
    broken = stage.broken_laws([person.record for person in people])
    if people[0].record.text != whole:
        broken.append(f"the undisturbed text is {people[0].record.text!r}")
    broken += _incomplete(kept, questions, len(whole.encode()), finish_reason="stop")
    broken += [f"{person.record.response_id}: another text" for person in people if person.record.text != whole]
    done = f"one of two breaks off after output {CUT}, {answers} answers"
    return [_finding("c", "scripted ×2", done, _carried(kept, questions), broken, "; texts as undisturbed")]


async def _killed(stage: Stage, victim: EngineProcess, questions: Sequence[Question]) -> tuple[list[str], int]:
    """Ask all, kill one engine at token 30 of the slowest, read on: what is broken, how many were carried on."""
    async with stage.web() as web:
        people = [stage.person(web, question) for question in questions]
        reading = asyncio.create_task(stage.read_all(people))
        await until(_has_made(stage, questions), ANSWER_S, "the slowest answer")
        await asyncio.to_thread(victim.kill)
        before = books.read(stage.one)
        await reading
    kept = books.read(stage.one)
    carried = _carried(kept, questions)
    broken = stage.broken_laws([person.record for person in people])
    broken += _incomplete(kept, questions, TOKENS, finish_reason="length")
    broken += _changed(before, kept, people)
    if not 0 < carried < len(questions):
        broken.append(f"{carried} of {len(questions)} were carried on")
    return broken, carried


def _has_made(stage: Stage, questions: Sequence[Question]):
    async def asked() -> bool:
        return await asyncio.to_thread(stage.least_made, questions) >= CUT

    return asked


def _incomplete(kept: Books, questions: Sequence[Question], tokens: int, *, finish_reason: str) -> list[str]:
    lines = []
    for question in questions:
        (row,) = kept.by_key(question.key)
        ended = [event for event in kept.logs[row["id"]] if event.kind == "ended"]
        reason = ended[0].payload["finish_reason"] if ended else None
        if (row["end_state"], reason, row["completion_tokens"]) != ("completed", finish_reason, tokens):
            lines.append(f"{row['id']}: {row['end_state']} ({reason}), {row['completion_tokens']} tokens of {tokens}")
    return lines


def _changed(before: Books, kept: Books, people: Sequence[Person]) -> list[str]:
    """Answers whose log does not begin with what it was when the engine died."""
    ids = [person.record.response_id for person in people]
    return [
        f"{one}: what was shown changed" for one in ids if kept.logs[one][: len(before.logs[one])] != before.logs[one]
    ]


def _carried(kept: Books, questions: Sequence[Question]) -> int:
    logs = [kept.logs[kept.by_key(question.key)[0]["id"]] for question in questions]
    return sum(any(event.kind == "continued" for event in log) for log in logs)


def is_joined_letters(text: str) -> bool:
    """Whether it is the first k letters of an answer, and behind them as many of a new one as make it whole."""
    return any(text == LETTERS[:cut] + LETTERS[: TOKENS - cut] for cut in range(CUT, TOKENS + 1))


def is_whole_tokens(text: str) -> bool:
    return FAULT_TOKEN.sub("", text) == "" and len(FAULT_TOKEN.findall(text)) == TOKENS


def _killed_words(answers: int) -> str:
    return f"one of two killed (-9) at token {CUT} of {TOKENS}, {answers} answers"


def _finding(part: str, engine: str, done: str, carried: int, broken: list[str], more: str = "") -> Finding:
    seen = f"{carried} carried on, {len(broken)} breaches" + "".join(f"; {line}" for line in broken[:3])
    return Finding(part, engine, done, seen, PROMISED + more, not broken)
