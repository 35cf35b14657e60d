"""Owns the command of `make drill-cluster`: SEED and SILENCE_S from the environment; 1 when a law broke."""

import asyncio
import os
from pathlib import Path

from tests.drill import command, report
from tests.drill.cluster.drill import ClusterDrill
from tests.drill.cluster.figures import measure
from tests.drill.cluster.silence import silence
from tests.drill.cluster.up import up
from tests.drill.plan import Size, plan
from tests.drill.run import Patience, Result

NAME = "nginx, 3 processes, PostgreSQL, Valkey"
#: A database that is away longer than a reader's patience is not among the faults.
PATIENCE = Patience(silence_s=6, answer_s=90, ended_s=45)
RESPONSES = 240
SPAN_S = 120.0
PAUSE_S = 5.0
STREAMS = 90
FOLLOWED = 24
RUN_S = 420.0


def size(responses: int, span_s: float) -> Size:
    """What the people do; processes are one, for there is one address."""
    return Size(responses, span_s, 1, longest_pause_s=0, longest_stall_s=5)


async def drill(folder: Path, model_dir: Path, seed: int) -> tuple[Result, list[str]]:
    """Figures while nothing dies, then everything in turn; gives what broke and what was measured."""
    with up(folder, model_dir) as running:
        figures = await measure(running, STREAMS, FOLLOWED)
        planned = plan(seed, size(RESPONSES, SPAN_S))
        run = ClusterDrill(running, planned, PATIENCE, seed=seed, span_s=SPAN_S, pause_s=PAUSE_S)
        result = await run.run()
    result.broken += figures.broken
    return result, figures.lines()


def main() -> int:
    seed, model_dir = command.seed(), command.model_dir()
    silence_s = float(os.environ.get("SILENCE_S") or 65)
    base = command.folder()
    (base / "up").mkdir(0o700)
    print(f"drill-cluster: SEED={seed}, SILENCE_S={silence_s:g}", flush=True)
    with silence(base / "silence", model_dir, silence_s) as quiet:
        result, figures = asyncio.run(asyncio.wait_for(drill(base / "up", model_dir, seed), RUN_S))
        result.broken += quiet.broken()
    print("\n".join(figures))
    print(report.told(report.Run(seed, NAME, result)))
    return int(bool(result.broken))


if __name__ == "__main__":
    command.run(main)
