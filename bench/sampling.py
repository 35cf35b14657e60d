"""`python -m bench.sampling`: where one side's CPU goes per engine chunk, sampled by py-spy under the bench's own load.

py-spy is not among our requirements (`pip install py-spy`). Sampling slows a server a little: read the shares. What
runs below a Python frame (uvloop, json, SQLite, the kernel) counts for that frame.
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop

from bench.account import Account, threads_cpu_s
from bench.engine import RATE_PER_S, EngineHandle
from bench.load import Load
from bench.meter import Meter, spent
from bench.preparing import allow_many_sockets, say
from bench.processes import StartError, last_lines
from bench.samples import read_samples, report
from bench.sides import BARE, OURS, Side
from bench.stage import stage
from bench.table import grid, number

ThreadTimes = dict[int, tuple[float, float]]

SAMPLES_PER_S = 250
START_TOKENS = 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.sampling", description=__doc__)
    parser.add_argument("--side", choices=[OURS, BARE], default=OURS)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument(
        "--starts", action="store_true", help="short streams one after the other: the cost of a request"
    )
    parser.add_argument("--top", type=int, default=25)
    return parser.parse_args()


async def sample(py_spy: str, options: argparse.Namespace) -> str:
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        set_up = await stack.enter_async_context(stage(directory))
        side = await stack.enter_async_context({OURS: set_up.ours, BARE: set_up.bare}[options.side]())
        assert side.pid is not None
        async with (short_streams if options.starts else long_streams)(side, options):
            return await record(py_spy, side.pid, set_up.engine, directory, options)


@contextlib.asynccontextmanager
async def long_streams(side: Side, options: argparse.Namespace) -> AsyncIterator[None]:
    """Every stream is in full flow and none ends while the block runs."""
    tokens = (2 * options.seconds + 15) * RATE_PER_S
    load = Load(side.address, side.wire, streams=options.streams, tokens=tokens)
    await load.start()
    await load.all_streaming()
    yield
    load.close()


@contextlib.asynccontextmanager
async def short_streams(side: Side, options: argparse.Namespace) -> AsyncIterator[None]:
    """Streams start and end all the time while the block runs."""

    async def one_after_the_other() -> None:
        while True:
            load = Load(side.address, side.wire, streams=options.streams, tokens=START_TOKENS)
            await load.start()
            await load.all_ended(30)

    driving = asyncio.create_task(one_after_the_other())
    yield
    driving.cancel()


async def record(
    py_spy: str, pid: int, running_engine: EngineHandle, directory: Path, options: argparse.Namespace
) -> str:
    """First without the sampler, for what things cost, then with it, for where."""
    unit, chunks_per_unit = ("stream", START_TOKENS) if options.starts else ("chunk", 1)
    meter = Meter(running_engine, Account(pid))
    before, threads_before = await meter.read(), threads_cpu_s(pid)
    await asyncio.sleep(options.seconds)
    after, threads_after = await meter.read(), threads_cpu_s(pid)
    cpu_s, chunks = spent(before, after)
    units = max(1, chunks // chunks_per_unit)
    raw = await py_spy_record(py_spy, pid, directory, options.seconds)
    return "\n\n".join(
        [
            f"{options.side}: {1e6 * cpu_s / units:.1f} us of CPU per {unit}, over {units}",
            thread_table(threads_before, threads_after, units, unit),
            report(read_samples(raw), 1e6 * cpu_s / units, unit, options.top),
        ]
    )


async def py_spy_record(py_spy: str, pid: int, directory: Path, seconds: int) -> Path:
    raw, log = directory / "samples.raw", directory / "py-spy.log"
    how = ["-r", str(SAMPLES_PER_S), "-f", "raw", "--function", "--threads", "--full-filenames"]
    command = [py_spy, "record", "-p", str(pid), "-d", str(seconds), "-o", str(raw), *how]
    with log.open("wb") as output:
        recorder = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
        await recorder.wait()
    if recorder.returncode or not raw.exists():
        raise StartError(f"py-spy failed\n{last_lines(log)}")
    return raw


def thread_table(before: ThreadTimes, after: ThreadTimes, units: int, unit: str) -> str:
    """What the kernel says, to hold against what the sampler saw."""
    rows = []
    for thread, (user_s, system_s) in after.items():
        user_before_s, system_before_s = before.get(thread, (0.0, 0.0))
        spent_us = [1e6 * (user_s - user_before_s) / units, 1e6 * (system_s - system_before_s) / units]
        if sum(spent_us) >= 0.1:
            rows.append([str(thread), *map(number, spent_us)])
    return grid(["thread id, from /proc", f"user us/{unit}", f"system us/{unit}"], rows)


def main() -> int:
    options = arguments()
    py_spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if py_spy is None:
        say("py-spy is not installed: pip install py-spy")
        return 2
    allow_many_sockets()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(runner.run(sample(py_spy, options)))
    except (StartError, TimeoutError) as error:
        say(f"sampling: {str(error) or 'took too long'}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
