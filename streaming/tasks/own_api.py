"""Owns how a task asks our own API for an answer: as one user, for one purpose, within a time. Retries nothing."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from django.conf import settings

from streaming.store import task_tokens

TIMEOUT_S = 60.0
ANSWER_BYTES = 256 * 1024
#: What may be tried again later: the site is busy, stopping, or its engine away.
LATER = frozenset({408, 429})


class Refused(Exception):
    """No answer. ``is_final``: asking again would bring the same."""

    def __init__(self, message: str, *, is_final: bool):
        super().__init__(message)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, under which id, and why it stopped."""

    response_id: str
    text: str
    finish_reason: str


def ask(user_id: int, purpose: str, body: Mapping[str, Any]) -> Answer:
    """Ask for a chat completion that does not stream. Raises Refused."""
    token = task_tokens.issue(user_id, purpose)
    try:
        status, response_id, answer = asyncio.run(_post(task_tokens.PATHS[purpose], token, body))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise Refused(f"{settings.SITE_URL}: {type(error).__name__}: {error}", is_final=False) from error
    if status != 200:
        code = answer.get("error", {}).get("code")
        raise Refused(f"{status} {code}", is_final=status < 500 and status not in LATER)
    choice = answer["choices"][0]
    return Answer(response_id, choice["message"]["content"] or "", choice["finish_reason"])


async def _post(path: str, token: str, body: Mapping[str, Any]) -> tuple[int, str, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}", **_headers()}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        # Where a redirect leads, the token must not follow.
        session.post(settings.SITE_URL + path, json=body, headers=headers, allow_redirects=False) as response,
    ):
        return response.status, response.headers.get("X-Response-ID", ""), json.loads(await _body(response))


async def _body(response: aiohttp.ClientResponse) -> bytes:
    data = b""
    async for chunk in response.content.iter_chunked(ANSWER_BYTES):
        data += chunk
        if len(data) > ANSWER_BYTES:
            raise ValueError(f"an answer of more than {ANSWER_BYTES} bytes")
    return data


def _headers() -> dict[str, str]:
    """The site may be reached by an inner address, and knows itself by another name."""
    headers = {}
    hosts = [host for host in settings.ALLOWED_HOSTS if not host.startswith((".", "*"))]
    if hosts and urlsplit(settings.SITE_URL).hostname not in settings.ALLOWED_HOSTS:
        headers["Host"] = hosts[0]
    if settings.HTTPS_ONLY and settings.SITE_URL.startswith("http://"):
        headers["X-Forwarded-Proto"] = "https"
    return headers
