"""Owns how Valkey is reached by the channel layer, the cache and Celery: TLS, encryption, sizes. Knows no message."""

import ssl
from collections.abc import Sequence
from typing import Any

#: Doorbells that wait in one process's channel. Each other process rings at most 100 times a second; what does not
#: fit is lost like any doorbell, and the rows are looked at all the same.
CAPACITY = 1000
#: After so long a doorbell is worth nothing: rows are looked at several times a second.
EXPIRY_S = 10
#: A group whose processes have died is forgotten; the living join again every minute (streaming.notify).
GROUP_EXPIRY_S = 300
#: Longer than the layer waits for a message at a time, and short enough for a host that is gone without a word.
SOCKET_TIMEOUT_S = 15
CONNECT_TIMEOUT_S = 5


def channel_layers(url: str, ca_file: str, encryption_keys: Sequence[str]) -> dict[str, Any]:
    """The setting CHANNEL_LAYERS. With ``encryption_keys`` messages are sealed; the first seals, all open."""
    if not url:
        return {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    config: dict[str, Any] = {
        "hosts": [{"address": url, **_connection(url, ca_file)}],
        "capacity": CAPACITY,
        "expiry": EXPIRY_S,
        "group_expiry": GROUP_EXPIRY_S,
    }
    if encryption_keys:
        config["symmetric_encryption_keys"] = list(encryption_keys)
    return {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": config}}


def caches(url: str, ca_file: str) -> dict[str, Any]:
    """The setting CACHES."""
    if not url:
        return {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    backend = "django.core.cache.backends.redis.RedisCache"
    return {"default": {"BACKEND": backend, "LOCATION": url, "OPTIONS": _connection(url, ca_file)}}


def broker_ssl(url: str, ca_file: str) -> dict[str, Any] | None:
    """The setting CELERY_BROKER_USE_SSL; None without TLS."""
    if not is_tls(url):
        return None
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED, **({"ssl_ca_certs": ca_file} if ca_file else {})}


def is_tls(url: str) -> bool:
    """Whether the address says so."""
    return url.startswith("rediss://")


def _connection(url: str, ca_file: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": SOCKET_TIMEOUT_S,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
    }
    return options | ({"ssl_ca_certs": ca_file} if ca_file and is_tls(url) else {})
