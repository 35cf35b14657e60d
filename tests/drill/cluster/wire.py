"""Owns one stream as the measurements read it: every event's number with the moment it came. Judges nothing."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

PATIENCE = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=30)


@dataclass(slots=True)
class Heard:
    """What came: the highest number and the moment, in order."""

    response_id: str = ""
    seqs: list[tuple[int, float]] = field(default_factory=list)
    ended: bool = False


async def ask(web: aiohttp.ClientSession, url: str, model: str, heard: Heard, policy: str = "grace=20") -> None:
    """Ask there and read to the end."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "go"}]}
    headers = {"X-Disconnect-Policy": policy}
    async with web.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE) as answer:
        await _take(answer, heard)


async def follow(web: aiohttp.ClientSession, url: str, response_id: str, heard: Heard, after: str = "") -> None:
    """Read it there to the end, from the beginning or behind an event id."""
    headers = {"Last-Event-ID": after} if after else {}
    path = f"{url}/v1/responses/{response_id}/stream"
    async with web.get(path, headers=headers, timeout=PATIENCE) as answer:
        await _take(answer, heard)


async def _take(answer: aiohttp.ClientResponse, heard: Heard) -> None:
    assert answer.status == 200, (answer.status, await answer.text())
    heard.response_id = answer.headers["X-Response-ID"]
    async for line in _lines(answer):
        if line.startswith(b"id: "):
            heard.seqs.append((int(line.rsplit(b".", 1)[1]), time.monotonic()))
    heard.ended = True


async def _lines(answer: Any) -> AsyncIterator[bytes]:
    gathered = b""
    async for data in answer.content.iter_any():
        *lines, gathered = (gathered + data).split(b"\n")
        for line in lines:
            yield line
