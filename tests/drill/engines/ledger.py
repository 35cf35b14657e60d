"""Owns the finding that a part's engines and our rows agree, by the product's own ledger. Asks no engine itself."""

import asyncio
from collections.abc import Sequence

from tests.drill.engines.findings import Finding
from tests.drill.engines.stage import Stage
from tests.drill.reconciling import Ledger


class EnginesLedger:
    """Of one part, whose engines have their rows. Nothing may run there when they are opened or compared."""

    def __init__(self, stage: Stage, part: str, engine: str):
        self._ledger = Ledger(stage.one)
        self._part = part
        self._engine = engine

    async def open(self) -> None:
        await asyncio.to_thread(self._ledger.open)

    async def compared(self, names: Sequence[str], done: str, *, exact: bool = False) -> Finding:
        """``exact``: the rows know each token of it, and so must say just what the engines count."""
        found = await asyncio.to_thread(self._ledger.compare, names)
        promised = "equal" if exact else "within what may go unseen"
        holds = found.is_exact if exact else not found.broken
        return Finding(self._part, self._engine, done, "; ".join([*found.lines, *found.broken]), promised, holds)
