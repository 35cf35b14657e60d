"""The background tasks, each idempotent. None owns a relay: what needs text calls our own API."""

from . import batches, counting, orphans, reconcile, retention, titles, usage, webhooks

__all__ = ["batches", "counting", "orphans", "reconcile", "retention", "titles", "usage", "webhooks"]
