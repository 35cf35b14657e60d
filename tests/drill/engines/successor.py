"""Owns the part in which the owner of an answer is only paused: who takes over stops what it had asked of vLLM."""

import asyncio
import signal
import time

from tests.drill import books
from tests.drill.engines.deaths import NO_END
from tests.drill.engines.findings import Finding
from tests.drill.engines.freeing import FREE_S
from tests.drill.engines.gauges import Gauges, Load, until
from tests.drill.engines.stage import ANSWER_S, Stage
from tests.drill.plan import Question
from tests.drill.sites import process_of

TOKENS, CUT = 400, 10
ADOPTED_S = 20.0


async def paused_owner(stage: Stage, model: str, url: str) -> list[Finding]:
    """The second site is stopped by SIGSTOP amid an answer; the first adopts it and aborts the attempt by its name."""
    question = stage.question(
        model, policy="background", text="Write a long story.", fields={"max_tokens": TOKENS, **NO_END}
    )
    async with stage.web() as web:
        gauges = Gauges(web, "vllm", url)
        await gauges.until(lambda load: load == Load(0, 0))
        reading = asyncio.create_task(stage.person(web, question, stage.two).read(0, ANSWER_S))
        await until(_is_true(lambda: stage.made_tokens(question) >= CUT), ANSWER_S, "the answer")
        process_of(stage.two).popen.send_signal(signal.SIGSTOP)
        try:
            await until(_is_true(lambda: _is_adopted(stage, question)), ADOPTED_S, "the adoption")
            adopted_at, shown = time.monotonic(), stage.made_tokens(question)
            await until(_is_true(lambda: stage.made_tokens(question) > shown), ANSWER_S, "the successor's answer")
            # The successor's own attempt is there now: while the other is too, there are two.
            freed_at = await gauges.until(lambda load: load == Load(1, 0))
            is_alone = stage.row_of(question)["end_state"] is None
            await until(_is_true(lambda: stage.row_of(question)["end_state"]), ANSWER_S, "the end")
        finally:
            process_of(stage.two).popen.send_signal(signal.SIGCONT)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        # Who woke up may write down what its engine had made, and nothing else. Whether that is all say the books.
        await until(_is_true(lambda: not stage.row_of(question)["usage_estimated"]), ANSWER_S, "the count")
    row = stage.row_of(question)
    laws = [line for line in stage.broken_laws([]) if row["id"] in line]
    freed_s = max(0.0, freed_at - adopted_at)
    is_whole = (row["end_state"], row["completion_tokens"], row["epoch"]) == ("completed", TOKENS, 2)
    unseen = row["generated_tokens"] - TOKENS
    ended = f"{row['end_state']}, {row['completion_tokens']} tokens"
    seen = f"one attempt left {freed_s * 1000:.0f} ms after the adoption; {ended}"
    return [
        Finding(
            "g", "vLLM", f"owner paused (SIGSTOP) at token {CUT} of {TOKENS}, adopted",
            "; ".join([seen, f"{unseen} of the paused attempt that nobody saw, written down by it", *laws]),
            f"the attempt aborted by its name within {FREE_S:g} s, the answer whole, all it made counted",
            is_alone and is_whole and freed_s <= FREE_S and not laws,
        )
    ]  # fmt: skip


def _is_true(check):
    async def asked() -> bool:
        return bool(await asyncio.to_thread(check))

    return asked


def _is_adopted(stage: Stage, question: Question) -> bool:
    log = books.read(stage.one).logs[stage.ids_of(question)[0]]
    return any(event.kind == "continued" for event in log)
