"""Owns a Valkey as it stands in a shared network: TLS before it, one user with few rights, all with a password."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import redis

from tests.cluster.valkey import Valkey
from tests.e2e.certificate import throw_away

#: What docs/operations.md tells to give the site.
SITE_RULES = "~asgi* ~:1:* ~celery* ~_kombu* ~unacked* ~*.reply.celery.pidbox* &* +@all -@admin -@dangerous +info"
SITE_PASSWORD = "site"


class SealedValkey(Valkey):
    """``url`` is that of the site's user over TLS; ``client`` may do everything, and comes without."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self._plain_url = self.url
        certificate = throw_away(folder)
        self.ca_file = str(certificate.chain)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.chain, certificate.key)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self._plain_url)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """With its TLS before it and its users made."""
        self.start()
        self.client().execute_command(f"ACL SETUSER chatsite on >{SITE_PASSWORD} {SITE_RULES}")
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(asyncio.start_server(self._relay, "127.0.0.1", 0, ssl=self._context))
        tls_port = server.sockets[0].getsockname()[1]
        self.url = f"rediss://chatsite:{SITE_PASSWORD}@127.0.0.1:{tls_port}/0"
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.kill()
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))


async def _cancel_all() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
