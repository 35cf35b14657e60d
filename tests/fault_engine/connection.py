"""Owns one socket of the fault engine: requests off it, bytes onto it, whole, cut or reset. Knows no wire."""

import asyncio
import json
import socket
import struct
from collections import deque

#: Between the two writes of an event that is cut.
CUT_S = 0.001


class Connection(asyncio.Protocol):
    """Reads requests off one socket and writes frames to it."""

    def __init__(self, engine):
        self.engine = engine
        self.received = bytearray()
        self.stream = None
        self.paused = False
        self.outbox = deque()

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error):
        if self.stream is not None:
            self.engine.aborted(self.stream)

    def pause_writing(self):
        self.paused = True

    def resume_writing(self):
        self.paused = False

    def data_received(self, data):
        self.received += data
        while (head_end := self.received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.received[:head_end]).decode("latin-1")
            fields = dict(line.lower().split(":", 1) for line in head.split("\r\n")[1:])
            end = head_end + 4 + int(fields.get("content-length", 0))
            if len(self.received) < end:
                return
            body = bytes(self.received[head_end + 4 : end])
            del self.received[:end]
            method, path, _ = head.split(" ", 2)
            self.engine.handle(self, method, path.partition("?")[0], body)

    def answer(self, payload, status=200, content_type="application/json", extra=""):
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n{extra}Content-Length: {len(data)}\r\n\r\n"
        self.transport.write(head.encode() + data)

    def send(self, data, split=False):
        """Write in order; ``split`` cuts the bytes into two writes, some time apart."""
        pieces = [data[: len(data) // 2], data[len(data) // 2 :]] if split else [data]
        if not self.outbox:
            self.transport.write(pieces.pop(0))
            if pieces:
                asyncio.get_running_loop().call_later(CUT_S, self.send_next)
        self.outbox += pieces

    def send_next(self):
        self.transport.write(self.outbox.popleft())
        if self.outbox:
            asyncio.get_running_loop().call_later(CUT_S, self.send_next)

    def reset(self):
        linger = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()
