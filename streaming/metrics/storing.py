"""Owns what is counted of commits. Makes none."""

from prometheus_client import Counter, Histogram

from .registry import REGISTRY

COMMIT = Histogram(
    "chat_journal_commit_seconds", "From a batch's closing to its being stored, with the ways to and from the thread.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10), registry=REGISTRY,
)  # fmt: skip
COMMIT_FAILURES = Counter("chat_journal_failures", "Commits that failed and are tried again.", registry=REGISTRY)
