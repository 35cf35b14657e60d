"""Owns what is counted of requests that got an error in place of an answer. Refuses none."""

from prometheus_client import Counter

from .registry import REGISTRY

REFUSED = Counter(
    "chat_refused_requests", "Requests below /v1 and /api that got an error before any answer, by status and code.",
    ["status", "code"], registry=REGISTRY,
)  # fmt: skip
