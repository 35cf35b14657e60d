"""Owns `make drill`: SEED, SEEDS and DEFAULTS from the environment, a run on PostgreSQL and one on SQLite per seed."""

import asyncio
import itertools
import os
from pathlib import Path

from tests.drill import command, report
from tests.drill.plan import Size, plan
from tests.drill.report import Run
from tests.drill.run import Drill, Patience, Result
from tests.drill.sites import one_on_sqlite, pair_on_postgres

QUICK = Patience(silence_s=4, answer_s=60, ended_s=30)
#: A death is noticed after up to 19 s, and an answer then runs on.
DEFAULTS = Patience(silence_s=30, answer_s=150, ended_s=60)
RUN_S = 420
STORES = {
    "PostgreSQL, 2 processes": (pair_on_postgres, 200, 2),
    "SQLite, 1 process": (one_on_sqlite, 100, 1),
}


def drill(seed: int, store: str, folder: Path, *, quick: bool) -> Result:
    """One run on one store, in an empty folder; bounded in time; ends what it started."""
    open_sites, responses, processes = STORES[store]
    size = Size(
        responses,
        span_s=responses * (0.35 if quick else 0.7),
        processes=processes,
        longest_pause_s=6 if quick else 20,
        longest_stall_s=5,
        between_faults_s=(5, 11) if quick else (15, 30),
    )
    with open_sites(folder, command.model_dir(), quick=quick) as up:
        return asyncio.run(_bounded(Drill(up, plan(seed, size), QUICK if quick else DEFAULTS)))


async def _bounded(run: Drill) -> Result:
    async with asyncio.timeout(RUN_S):
        return await run.run()


def main() -> int:
    first = command.seed()
    seeds = range(first, first + int(os.environ.get("SEEDS") or 1))
    quick = not os.environ.get("DEFAULTS")
    base = command.folder()
    runs: list[Run] = []
    for nth, (seed, store) in enumerate(itertools.product(seeds, STORES)):
        folder = base / str(nth)
        folder.mkdir(0o700)
        print(f"drill: SEED={seed}, {store}, {'short' if quick else 'default'} times", flush=True)
        runs.append(Run(seed, store, drill(seed, store, folder, quick=quick)))
        print(report.told(runs[-1]), flush=True)
    if len(seeds) > 1:
        report.write(runs)
    return int(any(run.result.broken for run in runs))


if __name__ == "__main__":
    command.run(main)
