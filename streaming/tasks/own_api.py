"""Owns how a task asks our own API for an answer: for whom, for what, and what came back. Retries nothing."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import ClientSession
from django.conf import settings

from streaming.store import task_tokens

TIMEOUT_S = 60.0
ANSWER_BYTES = 256 * 1024
#: What may be tried again later: the site is busy, stopping, or its engine away.
LATER = frozenset({408, 429})
FAILURES = (aiohttp.ClientError, OSError, TimeoutError, ValueError)


class Refused(Exception):
    """No answer. ``is_final``: asking again would bring the same."""

    def __init__(self, message: str, *, is_final: bool):
        super().__init__(message)
        self.is_final = is_final


class TooLong(Exception):
    """An answer that nobody here can take; asking again would bring the same."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, under which id, and why it stopped."""

    response_id: str
    text: str
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the API answered, as it came."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def response_id(self) -> str:
        return self.headers.get("X-Response-ID", "")

    @property
    def error(self) -> Mapping[str, Any]:
        """The error object, whatever the dialect; empty where there is none."""
        error = self.body.get("error")
        return error if isinstance(error, dict) else {}


def ask(user_id: int, purpose: str, body: Mapping[str, Any]) -> Answer:
    """Ask for a chat completion that does not stream. Raises Refused."""
    token = task_tokens.issue(user_id, purpose)
    try:
        reply = asyncio.run(_ask(token, body))
    except TooLong as error:
        raise Refused(str(error), is_final=True) from error
    except FAILURES as error:
        raise Refused(f"{settings.SITE_URL}: {type(error).__name__}: {error}", is_final=False) from error
    if reply.status != 200:
        is_final = reply.status < 500 and reply.status not in LATER
        raise Refused(f"{reply.status} {reply.error.get('code')}", is_final=is_final)
    choice = reply.body["choices"][0]
    return Answer(reply.response_id, choice["message"]["content"] or "", choice["finish_reason"])


async def _ask(token: str, body: Mapping[str, Any]) -> Reply:
    async with session(TIMEOUT_S) as web:
        return await post(web, "/v1/chat/completions", token, body)


def session(timeout_s: float | None) -> ClientSession:
    """For the requests of one run; each may take so long."""
    return ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s), connector=aiohttp.TCPConnector(limit=0))


async def post(
    web: ClientSession,
    path: str,
    token: str,
    body: Mapping[str, Any],
    *,
    headers: Mapping[str, str] | None = None,
    answer_bytes: int = ANSWER_BYTES,
) -> Reply:
    """One request. Raises TooLong, and FAILURES where nothing that we could have said came back."""
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **(headers or {}), **_headers()}
    # No longer than it came: the site has a cap.
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    # Where a redirect leads, the token must not follow.
    async with web.post(settings.SITE_URL + path, data=data, headers=sent, allow_redirects=False) as response:
        answer = json.loads(await _body(response, answer_bytes))
        if not isinstance(answer, dict):
            raise ValueError("an answer that is no object")
        return Reply(response.status, response.headers, answer)


async def _body(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    data = b""
    async for chunk in response.content.iter_chunked(ANSWER_BYTES):
        data += chunk
        if len(data) > limit_bytes:
            raise TooLong(f"The answer has more than {limit_bytes} bytes.")
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
