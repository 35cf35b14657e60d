"""Owns how one address of the site is asked: key, host name, certificates. Judges no answer."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

CONNECT_S = 10.0
#: What an answer may take beyond what it was asked to take.
SPARE_S = 30.0


@dataclass(frozen=True, slots=True)
class Site:
    """``host`` is the name that addresses inside are asked for: they get it as a proxy of ours would pass it on."""

    key: str
    host: str = ""
    ca_file: str = ""

    def headers(self, url: str) -> Mapping[str, str]:
        """What every request carries. Compression is offered, so that a hop that would compress does."""
        headers = {"Authorization": f"Bearer {self.key}", "Accept-Encoding": "gzip"}
        if self.host and url.startswith("http://"):
            headers |= {"Host": self.host, "X-Forwarded-Proto": "https"}
        return headers

    @asynccontextmanager
    async def ask(
        self, method: str, url: str, path: str, *, within_s: float = SPARE_S, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A request on a connection of its own, its body as it comes. Raises aiohttp.ClientError or TimeoutError."""
        trusted = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trusted, force_close=True),
                timeout=aiohttp.ClientTimeout(total=within_s, sock_connect=CONNECT_S),
                auto_decompress=False,
            ) as session,
            session.request(method, url.rstrip("/") + path, headers=self.headers(url), **options) as answer,
        ):
            yield answer


def words_of(error: BaseException) -> str:
    """An error of a connection in few words."""
    if isinstance(error, TimeoutError):
        return "nothing more came in time"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "closed in the middle"
    return " ".join(str(error).split())[:200] or type(error).__name__
