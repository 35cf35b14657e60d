"""Owns one stream on one connection as its reader sees it: text, times, position, how it ended. Starts no other."""

import asyncio
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import cast

from bench.http_body import BadAnswer, BodyReader
from bench.wires import STAMP, Payload, Wire

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class StreamRecord:
    started_s: float = 0.0
    first_content_s: float | None = None
    latencies_s: list[float] = field(default_factory=list)
    tokens: int = 0
    frames: int = 0
    last_event_id: str = ""
    failure: str | None = None


class StreamClient(asyncio.Protocol):
    """`ended` is set when it is whole, wrong or cut; `streaming` at its first content, or with `ended`."""

    def __init__(self, wire: Wire, request: bytes, tokens: int) -> None:
        self.record = StreamRecord()
        self.tokens = tokens  # that a whole stream brings
        self.streaming = asyncio.Event()
        self.ended = asyncio.Event()
        self._wire, self._request = wire, request
        self._body, self._text = BodyReader(), b""
        self._transport: asyncio.Transport | None = None

    @property
    def status(self) -> int | None:
        return self._body.status

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
        if self.status == 200:
            *frames, self._text = self._text.split(b"\n\n")
            for frame in frames:
                self._read_frame(frame, now_s, wall_s)
        elif self._text:
            self.end(f"HTTP {self.status}: {self._text[:300]!r}")

    def _read_frame(self, frame: bytes, now_s: float, wall_s: float) -> None:
        if self.ended.is_set():
            return
        data = b""
        for line in frame.split(b"\n"):
            if line.startswith(b"data: "):
                data += line[6:]
            elif line.startswith(b"id: "):
                self.record.last_event_id = line[4:].decode("ascii")
        if data:
            self._read_payload(data, now_s, wall_s)

    def _read_payload(self, data: bytes, now_s: float, wall_s: float) -> None:
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
            self.end(None if seen == self.tokens else f"{seen} of {self.tokens} tokens arrived")

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

    def reset(self) -> None:
        """RST, as from a proxy that dies."""
        if self._transport is not None:
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.end("reset")
