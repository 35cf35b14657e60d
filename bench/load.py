"""Owns the load driver: N concurrent streams over raw sockets. What one of them sees is its client's."""

import asyncio
import contextlib
from functools import partial

from bench.client import StreamClient, StreamRecord
from bench.wires import Address, Wire, question


async def connect(client: StreamClient, address: Address) -> None:
    """A refused connection is the client's failure, not ours."""
    try:
        await asyncio.get_running_loop().create_connection(partial(as_is, client), address.host, address.port)
    except OSError as error:
        client.connection_lost(error)


def as_is(client: StreamClient) -> StreamClient:
    return client


class Load:
    """`streams` streams, started `ramp_s` apart: slow enough that a server on half a core is not flooded by starts."""

    def __init__(self, address: Address, wire: Wire, *, streams: int, tokens: int, ramp_s: float = 0.01) -> None:
        request = question(wire, tokens, address)
        self.clients = [StreamClient(wire, request, tokens) for _ in range(streams)]
        self._address, self._ramp_s = address, ramp_s

    async def start(self) -> None:
        for client in self.clients:
            await connect(client, self._address)
            await asyncio.sleep(self._ramp_s)

    async def all_streaming(self, timeout_s: float | None = None) -> int:
        """Wait for everybody's first text, at most so long; how many are without."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for client in self.clients:
                    await client.streaming.wait()
        return sum(not client.streaming.is_set() for client in self.clients)

    async def first_ended(self) -> None:
        waits = [asyncio.ensure_future(client.ended.wait()) for client in self.clients]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def all_ended(self, timeout_s: float) -> None:
        """Wait for every stream; what is still open after `timeout_s` is a failure."""
        try:
            async with asyncio.timeout(timeout_s):
                for client in self.clients:
                    await client.ended.wait()
        except TimeoutError:
            for client in self.clients:
                client.end(f"open after {timeout_s:.0f} s with {client.record.tokens} tokens")

    def close(self) -> None:
        for client in self.clients:
            client.close()

    @property
    def records(self) -> list[StreamRecord]:
        return [client.record for client in self.clients]

    def failures(self) -> tuple[str, ...]:
        return tuple(record.failure for record in self.records if record.failure is not None)
