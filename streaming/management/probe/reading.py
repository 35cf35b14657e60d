"""Owns reading the diagnostic stream through one address, with the time of every read. Judges nothing."""

import asyncio
import json
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from streaming.hops import Arrival, Hop, Silence, Trickle
from streaming.protocol.sse_parser import SSEParseError, SSEParser

from .site import SPARE_S, Site, words_of

PATH = "/v1/diagnostics/stream"
GZIP_OR_ZLIB = 47


@dataclass(slots=True)
class Read:
    """Everything that came of one stream. ``error`` is what was said in band."""

    encoding: str = "identity"
    arrivals: list[Arrival] = field(default_factory=list)
    error: dict[str, Any] | None = None
    is_done: bool = False
    trouble: str = ""
    began_s: float = 0.0
    ended_s: float = 0.0
    last_read_s: float = 0.0


async def read_hop(site: Site, url: str, events: int, interval_s: float, silence_s: float) -> Hop:
    """Both streams at once: one that trickles, and one that is silent. 0 s of silence: not tried."""
    trickling = read_trickle(site, url, events, interval_s)
    if not silence_s:
        return Hop(url, await trickling)
    trickle, silence = await asyncio.gather(trickling, read_silence(site, url, silence_s))
    return Hop(url, trickle, silence)


async def read_trickle(site: Site, url: str, events: int, interval_s: float) -> Trickle:
    """Small events, evenly spaced."""
    query = {"events": events, "interval_ms": round(interval_s * 1000)}
    read = await read_stream(site, url, query, within_s=events * interval_s + SPARE_S)
    return Trickle(interval_s, events, tuple(read.arrivals), read.encoding, read.trouble)


async def read_silence(site: Site, url: str, silence_s: float) -> Silence:
    """An event, the silence, another event."""
    query = {"events": 2, "interval_ms": 10, "silence_s": f"{silence_s:g}"}
    read = await read_stream(site, url, query, within_s=silence_s + SPARE_S)
    if read.trouble:
        return Silence(silence_s, read.ended_s - (read.last_read_s or read.began_s), read.trouble)
    return Silence(silence_s, silence_s)


async def read_stream(site: Site, url: str, query: dict[str, Any], *, within_s: float) -> Read:
    """The whole stream, or as much of it as came."""
    read = Read(began_s=time.monotonic())
    try:
        async with site.ask("GET", url, PATH, within_s=within_s, params=query) as answer:
            read.encoding = answer.headers.get("Content-Encoding", "identity").lower()
            if answer.status != 200 or answer.content_type != "text/event-stream":
                read.trouble = await refusal_of(answer)
            else:
                await _read_events(answer, read)
    except (aiohttp.ClientError, TimeoutError, OSError, SSEParseError, zlib.error) as error:
        read.trouble = words_of(error)
    read.ended_s = time.monotonic()
    if not read.trouble and not read.is_done and read.error is None:
        read.trouble = "closed before the end"
    return read


async def refusal_of(answer: aiohttp.ClientResponse) -> str:
    """What an answer that is no stream says of itself."""
    try:
        said = json.loads(await answer.read())["error"]["message"]
    except (ValueError, LookupError, TypeError):
        said = f"no event stream but {answer.content_type}"
    return f"status {answer.status}: {said}"[:200]


async def _read_events(answer: aiohttp.ClientResponse, read: Read) -> None:
    parser = SSEParser()
    async for data in plain(answer):
        read.last_read_s = time.monotonic()
        for event in parser.feed(data):
            _take(event.data, read)


async def plain(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The reads of a body as they come, unpacked where a hop has packed them."""
    packed = answer.headers.get("Content-Encoding", "identity").lower() in ("gzip", "deflate")
    unpack = zlib.decompressobj(GZIP_OR_ZLIB) if packed else None
    async for data in answer.content.iter_any():
        if out := unpack.decompress(data) if unpack else data:
            yield out


def _take(data: str, read: Read) -> None:
    if data == "[DONE]":
        read.is_done = True
        return
    message = json.loads(data)
    if "error" in message:
        read.error = message["error"]
    else:
        read.arrivals.append(Arrival(message["number"], message["sent_ms"] / 1000, read.last_read_s))
