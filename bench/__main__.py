"""Owns the order of a run: sides up, warm, idle streams, then interleaved rounds; tables, document, exit code."""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import tempfile
from pathlib import Path

import uvloop

from bench.budgets import BUDGETS, FEW, MANY
from bench.engine import EngineHandle, engine
from bench.measure import measure_idle, measure_load
from bench.preparing import allow_many_sockets, said_by, say, warm
from bench.processes import ROOT, StartError
from bench.results import Results
from bench.sides import BARE, OURS, Side, bare, direct, nginx, ours
from bench.table import document, tables

RUN_TIMEOUT_S = 420


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds at 200 streams; one less at 50")
    parser.add_argument("--tokens", type=int, default=150, help="tokens of each stream (25 a second)")
    parser.add_argument("--without-ours", action="store_true", help="try the bench itself: no site, no budgets")
    parser.add_argument("--engine", type=Path, default=ROOT / "tests" / "fault_engine.py")
    parser.add_argument("--output", type=Path, default=ROOT / "var" / "bench.json")
    return parser.parse_args()


async def measure_all(sides: list[Side], running_engine: EngineHandle, options: argparse.Namespace) -> Results:
    results = Results()
    for side in sides:
        say(f"warming {side.name}")
        await warm(side)
    for side in judged(sides):
        say(f"idle streams: {side.name}")
        results.idles.append(await measure_idle(side, running_engine, streams=MANY))
    for streams, rounds in ((FEW, max(1, options.rounds - 1)), (MANY, options.rounds)):
        for number in range(rounds):
            for side in sides if number == 0 else judged(sides):
                say(f"{streams} streams, round {number + 1} of {rounds}: {side.name}")
                measure = await measure_load(side, running_engine, streams=streams, tokens=options.tokens)
                results.loads.append(measure)
                if measure.failures:
                    say(f"{len(measure.failures)} failed: {measure.failures[0]}\n{said_by(side)}")
    return results


def judged(sides: list[Side]) -> list[Side]:
    """The sides that are held against each other; the rest only show where the floor is, and once is enough."""
    return [side for side in sides if side.name in (OURS, BARE)]


async def run(options: argparse.Namespace) -> Results:
    stop = asyncio.current_task()
    assert stop is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.cancel)
    async with asyncio.timeout(RUN_TIMEOUT_S), contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        running_engine = await stack.enter_async_context(engine(options.engine, directory))
        sides = [] if options.without_ours else [await stack.enter_async_context(ours(running_engine, directory))]
        sides.append(await stack.enter_async_context(bare(running_engine, directory)))
        passing = await stack.enter_async_context(nginx(running_engine, directory))
        if passing is None:
            say("no nginx on this machine: that side is left out")
        else:
            sides.append(passing)
        return await measure_all([*sides, direct(running_engine)], running_engine, options)


def main() -> int:
    options = arguments()
    allow_many_sockets()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            results = runner.run(run(options))
    except (StartError, TimeoutError) as error:
        say(f"bench: {error or 'took too long'}")
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("bench: stopped")
        return 130
    print(tables(results))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document(results), indent=1) + "\n", encoding="utf-8")
    broken = [budget for budget in BUDGETS if budget.verdict(results) in ("broken", "missing")]
    return 0 if options.without_ours else int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
