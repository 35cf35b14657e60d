"""Owns one webhook's request: where it may go, what it is signed with, what counts as taken. Knows no row.

Signed as Standard Webhooks says: HMAC-SHA256 over ``id.timestamp.body``, in base64, behind ``v1,``.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

SECRET_PREFIX = "whsec_"
SECRET_BYTES_MIN = 16
USER_AGENT = "chatsite-webhook"
#: Addresses inside which others are spelled: a translator on the way could make private ones of them.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class NotAllowed(OSError):
    """The address is not one to which anything is sent."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request; ``error`` is empty where the receiver took it."""

    status: int | None
    error: str = ""


def key_of(secret: str) -> bytes:
    """The key of ``whsec_`` and base64; ValueError for anything else, or for one that is too short to be a secret."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.strip().startswith(SECRET_PREFIX) or len(key) < SECRET_BYTES_MIN:
        raise ValueError(f"a secret is {SECRET_PREFIX} and base64 of at least {SECRET_BYTES_MIN} bytes")
    return key


def signature(key: bytes, message_id: str, at_s: int, body: bytes) -> str:
    """The header's value."""
    signed = b"%s.%d.%s" % (message_id.encode(), at_s, body)
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(key: bytes, message_id: str, at_s: int, body: bytes) -> dict[str, str]:
    """All headers of a request."""
    return {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": signature(key, message_id, at_s, body),
    }


def is_public(address: str) -> bool:
    """Whether an address is one of the open internet, also where it is spelled inside another."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip.sixtofour is not None or ip.teredo is not None or any(ip in network for network in _TRANSLATED):
            return False
    return ip.is_global and not ip.is_multicast


class PublicResolver(AbstractResolver):
    """Resolves names; a name with any address that is not public is none. What is resolved is what is connected to."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if not all(is_public(one["host"]) for one in found):
            raise NotAllowed(f"{host} is not an address of the open internet")
        return found

    async def close(self) -> None:
        await self._resolver.close()


def check_url(url: str, may_be_private: bool) -> None:
    """Raises NotAllowed for what is refused before any name is resolved: plain HTTP and spelled-out addresses."""
    parts = urlsplit(url)
    if may_be_private:
        return
    if parts.scheme != "https":
        raise NotAllowed("only https:// addresses")
    try:
        address = str(ipaddress.ip_address(parts.hostname or ""))
    except ValueError:
        return
    if not is_public(address):
        raise NotAllowed(f"{address} is not an address of the open internet")


def session(timeout_s: float, may_be_private: bool) -> aiohttp.ClientSession:
    """For the requests of one run. No proxy of the environment, no cookies, nothing kept open."""
    resolver = ThreadedResolver() if may_be_private else PublicResolver()
    connector = aiohttp.TCPConnector(resolver=resolver, limit=0, force_close=True, use_dns_cache=False)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


async def send(
    web: aiohttp.ClientSession, url: str, key: bytes, message_id: str, payload: Mapping[str, Any], at_s: int
) -> Outcome:
    """One attempt. Taken is any 2xx; a redirect is not followed. Nothing of the answer's body is read."""
    body = json.dumps(payload, separators=(",", ":")).encode()
    try:
        signed = headers(key, message_id, at_s, body)
        async with web.post(url, data=body, headers=signed, allow_redirects=False) as answer:
            if 200 <= answer.status < 300:
                return Outcome(answer.status)
            return Outcome(answer.status, f"answered {answer.status}")
    except TimeoutError:
        return Outcome(None, "no answer in time")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        cause = getattr(error, "os_error", None) or error
        return Outcome(None, f"{type(cause).__name__}: {cause}")
