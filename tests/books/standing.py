"""Owns holding the real worker still while an answer of it is cut off. Knows no row, judges nothing.

What a worker makes while our process does not get to run lies in a socket, and goes with it: how much that is says
something of the machine alone. While the worker stands all that it has made is read; then the answer is cut off.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from streaming.relay import Relay
from tests.stream.conftest import DEADLINE_S

#: What keeps the demo model from ending its answer.
NO_END = {"logit_bias": {2: -100.0, 0: -100.0}}
ESTABLISHED = "01"
#: How often all is read before it counts as read: what was in the kernel has then gone through the process.
LOOKS = 20
_turns: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}


async def cut_off(url: str, relay: Relay, deed: Callable[[], Awaitable[None]]) -> None:
    """Do what leads to the end of the relay's answer; the worker at ``url`` goes on when its stream is closed."""
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()), _standing(url) as port:
        open_before = {ours for ours, _ in _streams(port)}
        doing = asyncio.ensure_future(deed())
        await _until(lambda: relay.asking.is_cut and bool(open_before - {ours for ours, _ in _streams(port)}))
    await doing


@asynccontextmanager
async def _standing(url: str) -> AsyncIterator[int]:
    port = urlsplit(url).port
    assert port
    worker = _listens_on(port)
    worker.suspend()
    try:
        await _until(lambda: worker.status() == psutil.STATUS_STOPPED)
        for _ in range(LOOKS):
            await _until(lambda: not any(unread for _, unread in _streams(port)))
        yield port
    finally:
        worker.resume()


def _listens_on(port: int) -> psutil.Process:
    for child in psutil.Process().children(recursive=True):
        if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in child.net_connections("tcp")):
            return child
    raise AssertionError(f"no worker of ours listens on port {port}")


def _streams(port: int) -> Iterator[tuple[int, int]]:
    """Of each open connection to the worker our port, and how many of its bytes we have not read."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, queues, *_ = line.split()
        if state == ESTABLISHED and _port(remote) == port:
            yield _port(local), int(queues.partition(":")[2], 16)


def _port(address: str) -> int:
    return int(address.partition(":")[2], 16)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
