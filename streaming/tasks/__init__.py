"""The background tasks, each idempotent. None owns a relay: what needs text calls our own API."""

from . import orphans, usage

__all__ = ["orphans", "usage"]
