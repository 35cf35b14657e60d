"""Owns a relay that buffers on purpose: who judges hops must find it. On the loopback, for one probe."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from .site import Site, words_of


@asynccontextmanager
async def holding_relay(site: Site, url: str, hold_s: float) -> AsyncIterator[str]:
    """The address of a relay before ``url`` that passes what came each ``hold_s`` seconds."""

    async def relay(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        try:
            async with site.ask("GET", url, str(request.rel_url), within_s=600) as inner:
                await _pass_on(inner, answer, hold_s)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await answer.write(f": {words_of(error)}\n\n".encode("ascii", "replace"))
        return answer

    application = web.Application()
    application.router.add_get("/{path:.*}", relay)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        place = web.TCPSite(runner, "127.0.0.1", 0)
        await place.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def _pass_on(inner: aiohttp.ClientResponse, answer: web.StreamResponse, hold_s: float) -> None:
    held = bytearray()
    loop = asyncio.get_running_loop()
    due_s = loop.time() + hold_s
    async for data in inner.content.iter_any():
        held += data
        if loop.time() >= due_s:
            await answer.write(bytes(held))
            held.clear()
            due_s = loop.time() + hold_s
    await answer.write(bytes(held))
