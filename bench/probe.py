"""Owns asking /healthz at a fixed pace over one kept connection, and how long each answer took. Knows no load."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from bench.http_body import BodyReader
from bench.wires import Address, head

EVERY_S = 0.02


@contextlib.asynccontextmanager
async def probing(address: Address) -> AsyncIterator[list[float]]:
    """The list fills with seconds while the block runs; it raises what the probe met (a connection lost)."""
    durations_s: list[float] = []
    asking = asyncio.create_task(ask(address, durations_s))
    try:
        yield durations_s
    finally:
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking


async def ask(address: Address, durations_s: list[float]) -> None:
    """From when it was due, not from when it was sent: one slow answer delays all that queue behind it."""
    request = head("GET /healthz", address, {"Accept": "application/json"})
    reader, writer = await asyncio.open_connection(address.host, address.port)
    due_s = time.perf_counter()
    try:
        while True:
            writer.write(request)
            answer = BodyReader()
            while not answer.whole:
                if not (data := await reader.read(65536)):
                    raise ConnectionResetError("/healthz: the connection was closed")
                answer.feed(data)
            durations_s.append(time.perf_counter() - due_s)
            due_s += EVERY_S
            await asyncio.sleep(due_s - time.perf_counter())
    finally:
        writer.transport.abort()
