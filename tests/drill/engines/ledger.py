"""Owns the parts on a real vLLM, and that all it says it made stands in our rows, token by token."""

from collections.abc import Sequence

from tests.drill.engines import freeing, successor
from tests.drill.engines.findings import Finding
from tests.drill.engines.gauges import Gauges, Load
from tests.drill.engines.stage import Stage

#: Ways that leave the engine's last tokens to somebody who can still write them down.
TOLD = [cell for cell in freeing.cells_of("vllm") if cell[0] != "shutdown"]
RELEASED = [cell for cell in freeing.cells_of("vllm") if cell[0] == "shutdown"]


async def vllm(
    stage: Stage, url: str, told: Sequence[freeing.Cell] = TOLD, released: Sequence[freeing.Cell] = RELEASED
) -> list[Finding]:
    """Left in every way and phase, its books compared; then its owner stopped, and paused."""
    async with stage.web() as web:
        ledger = Ledger(stage, Gauges(web, "vllm", url))
        await ledger.open()
        freeing.register(stage, "vllm", url)
        findings = await freeing.leave_answers(stage, "vllm", url, told)
        findings.append(await ledger.compared())
        findings += await freeing.leave_answers(stage, "vllm", url, released)
        await stage.restart_two()
        findings += await successor.paused_owner(stage, freeing.model_of("vllm"), url)
    return findings


class Ledger:
    """vLLM's counter beside the sum of our rows, from ``open`` on."""

    def __init__(self, stage: Stage, gauges: Gauges):
        self._stage = stage
        self._gauges = gauges
        self._opened_at_tokens = 0

    async def open(self) -> None:
        self._opened_at_tokens = await self._gauges.generated_tokens()

    async def compared(self) -> Finding:
        """Once nothing runs."""
        await self._gauges.until(lambda load: load == Load(0, 0))
        counted = await self._gauges.generated_tokens() - self._opened_at_tokens
        ((answers, generated),) = self._stage.one.rows(
            "SELECT COUNT(*), COALESCE(SUM(r.generated_tokens), 0) FROM streaming_response r"
            " JOIN streaming_engine e ON e.id = r.engine_id WHERE e.kind = 'vllm' AND e.model = ?",
            freeing.model_of("vllm"),
        )
        return Finding(
            "h", "vLLM", f"the books after {answers} answers, nearly all of them left",
            f"{generated} tokens in our rows, {counted} by its counter", "equal", generated == counted > 0,
        )  # fmt: skip
