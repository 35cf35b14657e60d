"""Owns a run: which parts, one after the other, each bounded in time; then tables, document, exit code."""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

import uvloop

from bench.budgets import of_parts
from bench.measure import Measure
from bench.parts import PARTS, Part
from bench.preparing import allow_many_sockets, say
from bench.processes import ROOT, StartError
from bench.results import Results
from bench.sides import OURS
from bench.stage import Stage, stage
from bench.table import document, tables


def arguments() -> argparse.Namespace:
    about = "\n".join(f"  {part.name:<11} {part.about}" for part in PARTS)
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=f"What a stream costs us. Parts:\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PART", help="these parts alone")
    parser.add_argument("--rounds", type=int, default=2, help="latency: rounds at 200 streams; one less at 50")
    parser.add_argument("--tokens", type=int, default=150, help="latency: tokens of each stream (25 a second)")
    parser.add_argument("--json", "--output", type=Path, nargs="?", const=ROOT / "var" / "bench.json", metavar="FILE")
    return parser.parse_args()


async def run(options: argparse.Namespace, results: Results) -> None:
    stop = asyncio.current_task()
    assert stop is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.cancel)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        async with stage(Path(directory), rounds=options.rounds, tokens=options.tokens) as set_up:
            for part in PARTS:
                if part.name in options.only:
                    await measure(part, set_up, results.measures)


async def measure(part: Part, set_up: Stage, measures: list[Measure]) -> None:
    """A part that fails takes no other with it: it counts as a failure, and its budgets are missing."""
    say(f"{part.name}: {part.about}")
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(part.timeout_s):
            async for one in part.measure(set_up):
                measures.append(one)  # noqa: PERF401 - what was measured before a failure stays
    except (StartError, TimeoutError, OSError) as error:
        why = f"{part.name}: {str(error) or f'took longer than {part.timeout_s:.0f} s'}"
        say(why)
        measures.append(Measure(part.name, "not measured to its end", OURS, {}, (why,)))
    say(f"{part.name}: {time.monotonic() - began_s:.0f} s")


def report(results: Results, parts: Collection[str], output: Path | None) -> int:
    budgets = of_parts(parts)
    print(tables(results, budgets))
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(document(results, budgets), indent=1) + "\n", encoding="utf-8")
    missed = [budget for budget in budgets if budget.verdict(results) in ("broken", "missing")]
    for budget in missed:
        say(f"missed: {budget.part}: {budget.name}")
    return int(bool(missed))


def main() -> int:
    options = arguments()
    allow_many_sockets()
    results = Results()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(options, results))
    except StartError as error:
        say(f"bench: {error}")
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("bench: stopped")
        return 130
    return report(results, options.only, options.json)


if __name__ == "__main__":
    sys.exit(main())
