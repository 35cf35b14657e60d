"""Owns the parts on a real vLLM: left, its owner stopped and paused; all it says it made stands in our rows."""

from collections.abc import Sequence

from tests.drill.engines import freeing, successor
from tests.drill.engines.findings import Finding
from tests.drill.engines.gauges import Gauges, Load
from tests.drill.engines.ledger import EnginesLedger
from tests.drill.engines.stage import Stage

#: Ways that leave the engine's last tokens to somebody who can still write them down.
TOLD = [cell for cell in freeing.cells_of("vllm") if cell[0] != "shutdown"]
RELEASED = [cell for cell in freeing.cells_of("vllm") if cell[0] == "shutdown"]
WHOLE, WHOLE_TOKENS = 6, 30


async def vllm(
    stage: Stage, url: str, told: Sequence[freeing.Cell] = TOLD, released: Sequence[freeing.Cell] = RELEASED
) -> list[Finding]:
    """Answers that are whole, and left in every way and phase; its owner paused, then stopped; its books each time."""
    freeing.register(stage, "vllm", url)
    model = freeing.model_of("vllm")
    ledger, name = EnginesLedger(stage, "h", "vLLM"), [f"{model}-0"]
    async with stage.web() as web:
        gauges = Gauges(web, "vllm", url)
        await ledger.open()
        questions = [stage.question(model, fields={"max_tokens": WHOLE_TOKENS}) for _ in range(WHOLE)]
        await stage.read_all([stage.person(web, question) for question in questions])
        findings = await freeing.leave_answers(stage, "vllm", url, told)
        await gauges.until(lambda load: load == Load(0, 0))
        done = f"{WHOLE} whole answers, {len(told)} left, and who filled it meanwhile"
        findings.append(await ledger.compared(name, f"the books after {done}", exact=True))
        await stage.restart_two()
        findings += await successor.paused_owner(stage, model, url)
        findings.append(await ledger.compared(name, "the books after its owner was paused", exact=True))
        if released:
            findings += await freeing.leave_answers(stage, "vllm", url, released)
            await gauges.until(lambda load: load == Load(0, 0))
            findings.append(await ledger.compared(name, "the books after owners that were told to leave"))
    return findings
