"""Owns what comes before the first measurement: sockets enough, a server that is warm, words for who waits."""

import asyncio
import resource
import sys

from bench.load import Load
from bench.processes import StartError, last_lines
from bench.sides import Side

WARM_STREAMS, WARM_TOKENS = 60, 20
READY_TIMEOUT_S = 30


async def warm(side: Side) -> None:
    """First requests pay for imports and caches; a server may also need a moment to find its engine healthy."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + READY_TIMEOUT_S
    while True:
        load = Load(side.address, side.wire, streams=WARM_STREAMS, tokens=WARM_TOKENS)
        await load.start()
        await load.all_ended(READY_TIMEOUT_S)
        failures = load.failures()
        if not failures:
            return
        if loop.time() > deadline_s:
            raise StartError(f"{side.name} does not answer: {failures[0]}\n{said_by(side)}")
        await asyncio.sleep(0.5)


def said_by(side: Side) -> str:
    return last_lines(side.log) if side.log else ""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def allow_many_sockets() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
