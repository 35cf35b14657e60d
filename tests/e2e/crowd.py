"""Owns many connections at once for tests: what they cost the web process, raw requests, resets. Knows no test."""

import asyncio
import json
import resource
import signal
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import psutil

from tests.e2e.site import Site

#: What the process may have, whatever the number of its streams.
MAX_THREADS, MAX_CONNECTIONS = 32, 12
DESCRIPTORS = 8192
LEAVING_S = 60


def raise_descriptor_limit() -> None:
    """This process holds the other ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


@dataclass(frozen=True)
class Held:
    """What the web process holds: threads, open connections to the database, memory."""

    threads: int
    connections: int
    rss_bytes: int

    @classmethod
    def by(cls, site: Site) -> "Held":
        process = psutil.Process(site.web.popen.pid)
        return cls(process.num_threads(), site.database.connections(process.pid), process.memory_info().rss)

    @property
    def is_bounded(self) -> bool:
        return self.threads <= MAX_THREADS and self.connections <= MAX_CONNECTIONS


def question(script: str, *, model: str = "scripted", stream: bool = True) -> dict:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": script}]}


async def opened(site: Site, key: str, body: dict) -> asyncio.StreamWriter:
    """A request whose answer nobody waits for."""
    data = json.dumps(body).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s" % (key.encode(), len(data), data)
    )
    await writer.drain()
    return writer


async def paused(site: Site, key: str, path: str) -> asyncio.StreamWriter:
    """A stream whose reader takes its first bytes and then nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(
        b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n" % (path.encode(), key.encode())
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.transport.pause_reading()
    return writer


def reset(transport: asyncio.BaseTransport) -> None:
    """RST instead of FIN."""
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()


async def true(condition: Callable[[], bool], within_s: float = 30) -> None:
    """Wait for something that happens in this process's other tasks."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


async def running(site: Site, count: int, where: str = "state = 'running'", within_s: float = 60) -> None:
    """Wait until so many responses run."""
    async with asyncio.timeout(within_s):
        while site.rows(f"SELECT COUNT(*) FROM streaming_response WHERE {where}") != [(count,)]:  # noqa: S608
            await asyncio.sleep(0.05)


async def nobody_left(site: Site) -> None:
    """Wait until all who came are gone: before that there may be some of whom the process has not even heard."""
    async with session("") as web, web.get(f"{site.url}/healthz"):
        pass  # Connections are accepted in the order in which they were made, so those before this one were.
    async with asyncio.timeout(LEAVING_S):
        while await asyncio.to_thread(live_requests, site):
            await asyncio.sleep(0.05)
    await running(site, 0, "end_state IS NULL")


def live_requests(site: Site) -> int:
    """How many requests the web process says it answers."""
    told = len(site.web.lines)
    site.web.popen.send_signal(signal.SIGUSR1)
    line = site.web.line_with("live connections:", after=told)
    return int(line.rsplit(":", 1)[1])


def session(key: str) -> aiohttp.ClientSession:
    """Every request has a connection of its own, and no time limit."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    headers = {"Authorization": f"Bearer {key}"}
    return aiohttp.ClientSession(connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=None))


@dataclass(eq=False)
class Follower:
    """One who reads a response over as many connections as it takes."""

    web: aiohttp.ClientSession
    url: str
    response_id: str = ""
    last_id: str | None = None
    text: str = ""
    statuses: list[int] = field(default_factory=list)
    is_done: bool = False

    async def ask(self, body: dict, policy: str, frames: int | None = None, **headers: str) -> None:
        """Ask, and read to the end; with ``frames``, be cut off after so many."""
        headers = {"X-Disconnect-Policy": policy, **headers}
        await self._read(self.web.post(f"{self.url}/v1/chat/completions", json=body, headers=headers), frames)

    async def come_back(self, frames: int | None = None, tries: int = 20) -> None:
        """Read on after the last frame, as often as one is told to come later."""
        for left in reversed(range(tries)):
            headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
            call = self.web.get(f"{self.url}/v1/responses/{self.response_id}/stream", headers=headers)
            if (retry_after_s := await self._read(call, frames)) is None or not left:
                return
            await asyncio.sleep(retry_after_s)

    async def _read(self, call, frames: int | None) -> float | None:
        """Returns after how many seconds to come again, where the answer says so."""
        async with call as answer:
            self.statuses.append(answer.status)
            if answer.status != 200:
                return float(answer.headers["Retry-After"])
            self.response_id = answer.headers["X-Response-ID"]
            gathered, count = b"", 0
            async for data in answer.content.iter_any():
                *blocks, gathered = (gathered + data).split(b"\n\n")
                # Cut off means that what lies behind was never read, also where it came in one piece with the rest.
                for block in blocks if frames is None else blocks[: frames - count]:
                    self._take(block.decode())
                count += len(blocks)
                if frames is not None and count >= frames:
                    reset(answer.connection.transport)
                    break
        return None

    def _take(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        self.last_id = fields.get("id", self.last_id)
        self.is_done = fields.get("data") == "[DONE]"
        if not self.is_done and "data" in fields:
            for choice in json.loads(fields["data"]).get("choices", ()):
                self.text += choice["delta"].get("content") or ""
