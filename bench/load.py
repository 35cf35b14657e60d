"""Owns the load driver: N concurrent streams over raw sockets and what each of them saw. It accounts no process."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from bench.http_body import BadAnswer, BodyReader
from bench.wires import STAMP, Payload, Wire


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


@dataclass(slots=True)
class StreamRecord:
    started_s: float = 0.0
    first_content_s: float | None = None
    latencies_s: list[float] = field(default_factory=list)
    tokens: int = 0
    frames: int = 0
    failure: str | None = None


class StreamClient(asyncio.Protocol):
    """One stream on one connection. `ended` is set when it is whole, wrong or cut; `streaming` at its first content."""

    def __init__(self, wire: Wire, tokens: int, authority: str) -> None:
        self.record = StreamRecord()
        self.streaming = asyncio.Event()
        self.ended = asyncio.Event()
        self._wire, self._tokens = wire, tokens
        self._request = build_request(wire, tokens, authority)
        self._body, self._text = BodyReader(), b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without inheriting from it
        self.record.started_s = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now_s, wall_s = time.perf_counter(), time.time()
        try:
            self._text += self._body.feed(data)
        except (BadAnswer, ValueError) as error:
            self.end(f"bad HTTP: {error}")
        if self._body.status == 200:
            *frames, self._text = self._text.split(b"\n\n")
            for frame in frames:
                self._read_frame(frame, now_s, wall_s)
        elif self._text:
            self.end(f"HTTP {self._body.status}: {self._text[:300]!r}")

    def _read_frame(self, frame: bytes, now_s: float, wall_s: float) -> None:
        data = b"\n".join(line[6:] for line in frame.split(b"\n") if line.startswith(b"data: "))
        if not data or self.ended.is_set():
            return
        self.record.frames += 1
        try:
            payload = self._wire.read(data)
        except ValueError:
            payload = Payload(error=f"not JSON: {data[:200]!r}")
        if payload.text:
            self._note_text(payload.text, now_s, wall_s)
        if payload.error:
            self.end(payload.error)
        elif payload.whole:
            seen = self.record.tokens
            self.end(None if seen == self._tokens else f"{seen} of {self._tokens} tokens arrived")

    def _note_text(self, text: str, now_s: float, wall_s: float) -> None:
        if self.record.first_content_s is None:
            self.record.first_content_s = now_s
            self.streaming.set()
        stamps = STAMP.findall(text)
        self.record.latencies_s.extend(wall_s - float(stamp) for stamp in stamps)
        self.record.tokens += len(stamps) + text.count(" the")

    def connection_lost(self, error: Exception | None) -> None:
        self.end(f"cut without the end of its wire ({error or self._text[:100]!r})")

    def end(self, failure: str | None) -> None:
        if self.ended.is_set():
            return
        self.record.failure = failure
        self.ended.set()
        self.streaming.set()  # nobody shall wait for content that cannot come any more
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def build_request(wire: Wire, tokens: int, authority: str) -> bytes:
    body = json.dumps(wire.request(tokens)).encode()
    headers = {
        "Host": authority,
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Content-Length": str(len(body)),
        **wire.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {wire.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def as_is(client: StreamClient) -> StreamClient:
    return client


class Load:
    """`streams` streams, started `ramp_s` apart: slow enough that a server on half a core is not flooded by starts."""

    def __init__(self, address: Address, wire: Wire, *, streams: int, tokens: int, ramp_s: float = 0.01) -> None:
        authority = f"{address.host}:{address.port}"
        self._address, self._ramp_s = address, ramp_s
        self.clients = [StreamClient(wire, tokens, authority) for _ in range(streams)]

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for client in self.clients:
            try:
                await loop.create_connection(partial(as_is, client), self._address.host, self._address.port)
            except OSError as error:
                client.connection_lost(error)
            await asyncio.sleep(self._ramp_s)

    async def all_streaming(self) -> None:
        for client in self.clients:
            await client.streaming.wait()

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
