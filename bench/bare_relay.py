"""Owns side B: the smallest Django relay that streams at all, under plain daphne. No log, no database, no counting.

What ours costs above this is the price of replay, end states and usage. It shares threads as ours does, because
a relay with a thread per stream would be an unfair thing to be compared with.
"""

import functools
import itertools
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import django
from asgiref.sync import ThreadSensitiveContext
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import path

ENGINE_URL = os.environ["BENCH_ENGINE_URL"]
SHARED_THREADS = 8

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="bench", MIDDLEWARE=[])
django.setup()


@functools.cache
def session() -> aiohttp.ClientSession:
    """Made at the first request: it wants the running loop."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None))


def frame(response_id: str, created_s: int, model: str, delta: dict[str, str], finish_reason: str | None) -> str:
    chunk = {
        "id": response_id,
        "object": "chat.completion.chunk",
        "created": created_s,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }
    return f"data: {json.dumps(chunk)}\n\n"


async def relay(asked: dict[str, Any]) -> AsyncIterator[str]:
    response_id, created_s, model = f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), asked["model"]
    body = {"prompt": [1, 2, 3], "n_predict": asked["max_tokens"], "stream": True, "return_tokens": True}
    yield frame(response_id, created_s, model, {"role": "assistant"}, None)
    async with session().post(f"{ENGINE_URL}/completion", json=body) as upstream:
        async for line in upstream.content:
            if not line.startswith(b"data: "):
                continue
            output = json.loads(line[6:])
            if output["content"]:
                yield frame(response_id, created_s, model, {"content": output["content"]}, None)
            if output["stop"]:
                yield frame(response_id, created_s, model, {}, "length")
    yield "data: [DONE]\n\n"


async def chat_completions(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(relay(json.loads(request.body)), content_type="text/event-stream")


urlpatterns = [path("v1/chat/completions", chat_completions)]

_django = ASGIHandler()
_threads = itertools.cycle([ThreadPoolExecutor(max_workers=1) for _ in range(SHARED_THREADS)])


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Mapping[str, Any]]],
    send: Callable[[Mapping[str, Any]], Awaitable[None]],
) -> None:
    async with ThreadSensitiveContext(executor=next(_threads)):
        await _django(scope, receive, send)
