"""Owns a Valkey as it stands in a shared network: TLS before it, one user with few rights, all with a password."""

from pathlib import Path

import redis

from tests.cluster.tls import TlsFront
from tests.cluster.valkey import Valkey
from tests.e2e.certificate import throw_away

#: What docs/operations.md tells to give the site: the channel layer, the cache, Celery's queues and its own keys.
SITE_KEYS = "~asgi* ~:1:* ~tasks* ~titles* ~celery* ~_kombu* ~unacked* ~*.reply.celery.pidbox*"
SITE_RULES = f"{SITE_KEYS} &* +@all -@admin -@dangerous +info"
SITE_PASSWORD = "site"


class SealedValkey(Valkey):
    """``url`` is that of the site's user over TLS; ``plain_url`` and ``client`` may do everything, and come without."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.plain_url = self.url
        certificate = throw_away(folder)
        self.ca_file = str(certificate.chain)
        self.start()
        self.client().execute_command(f"ACL SETUSER chatsite on >{SITE_PASSWORD} {SITE_RULES}")
        self._front = TlsFront(certificate, self.port)
        self.url = f"rediss://chatsite:{SITE_PASSWORD}@127.0.0.1:{self._front.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.plain_url)

    def close(self) -> None:
        """End both."""
        self._front.close()
        self.kill()
