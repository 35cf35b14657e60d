"""Owns one request to the provider: JSON, bounded in time and size, no redirect followed. Judges no content."""

import json
import ssl
from typing import Any

import aiohttp

from .client import Away, Client

BODY_BYTES_MAX = 256 * 1024
USER_AGENT = "chatsite-openid"


async def ask(
    client: Client, method: str, url: str, headers: dict[str, str] | None = None, body: str | None = None
) -> tuple[int, Any]:
    """The status below 500 and the JSON that came with it, None if it is none. Raises Away."""
    try:
        async with (
            _session(client) as web,
            web.request(method, url, headers=headers, data=body, allow_redirects=False) as answer,
        ):
            if answer.status >= 500 or 300 <= answer.status < 400:
                raise Away(f"{url} answered {answer.status}")
            return answer.status, _json(await _body(url, answer.content))
    except TimeoutError:
        raise Away(f"{url} took longer than {client.timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Away(f"{url}: {type(error).__name__}: {error}") from None


def _session(client: Client) -> aiohttp.ClientSession:
    """For one request: people sign in rarely. No proxy of the environment, no cookies."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=_trusted(client), force_close=True),
        timeout=aiohttp.ClientTimeout(total=client.timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
        trust_env=False,
    )


def _trusted(client: Client) -> ssl.SSLContext | bool:
    try:
        return ssl.create_default_context(cafile=client.ca_file) if client.ca_file else True
    except OSError as error:  # an SSLError is one: no certificate in it
        raise Away(f"OIDC_CA_FILE {client.ca_file!r} cannot be used: {error}") from None


async def _body(url: str, content: aiohttp.StreamReader) -> bytes:
    body = b""
    while data := await content.readany():
        body += data
        if len(body) > BODY_BYTES_MAX:
            raise Away(f"{url} answered more than {BODY_BYTES_MAX} bytes")
    return body


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
