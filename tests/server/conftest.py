"""Owns the real server process and the raw sockets of the tests beside it."""

import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.child import ROOT, Child

WAIT_S = 60.0
UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class ServerProcess(Child):
    """A launched server and the sockets that reach it."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None, pass_fds: Sequence[int] = ()) -> None:
        super().__init__(command, {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}, pass_fds=pass_fds)

    def wait_listening(self) -> "ServerProcess":
        self.port = int(self.wait_for(r"listening on http://127\.0\.0\.1:(\d+)").group(1))
        return self

    def printed(self, pattern: str) -> int:
        return sum(bool(re.search(pattern, line)) for line in self.lines)

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def exit_code(self, within_s: float = WAIT_S) -> int:
        return self.ended(within_s)

    @property
    def rss_bytes(self) -> int:
        return int(psutil.Process(self.popen.pid).memory_info().rss)

    def connect(self, receive_buffer_bytes: int | None = None) -> socket.socket:
        sock = socket.socket()
        if receive_buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.settimeout(WAIT_S)
        sock.connect(("127.0.0.1", self.port))
        return sock

    def get(self, path: str, *, receive_buffer_bytes: int | None = None) -> socket.socket:
        """A connection on which a GET has been sent and nothing read."""
        sock = self.connect(receive_buffer_bytes)
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        return sock

    def stop(self) -> None:
        self.popen.kill()
        self.popen.wait()


def read_until(sock: socket.socket, end: bytes) -> bytes:
    data = bytearray()
    while data.find(end, max(0, len(data) - 65536 - len(end))) < 0:
        chunk = sock.recv(65536)
        assert chunk, f"closed before {end!r}: {bytes(data)!r}"
        data += chunk
    return bytes(data)


def read_all(sock: socket.socket) -> bytes:
    """Everything up to the end of the connection, however it ends."""
    data = bytearray()
    with contextlib.suppress(ConnectionError):
        while chunk := sock.recv(65536):
            data += chunk
    return bytes(data)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def json_of(answer: bytes) -> Any:
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def reset(sock: socket.socket) -> None:
    """Close with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """One server with the default limits, for tests that leave it as they found it."""
    with launcher() as launch:
        yield launch()


@pytest.fixture
def launch() -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers with their own limits and ends them with the test."""
    with launcher() as launch:
        yield launch


@contextlib.contextmanager
def launcher() -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def start(*, mode: str = "plain", port: int = 0, listening: bool = True, **limits: float) -> ServerProcess:
        options = json.dumps({"mode": mode, "port": port, "limits": limits})
        server = ServerProcess([sys.executable, str(Path(__file__).with_name("serve_app.py")), options])
        started.append(server)
        return server.wait_listening() if listening else server

    try:
        yield start
    finally:
        for server in started:
            server.stop()
