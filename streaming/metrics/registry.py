"""Owns the one registry of this process, its text, and the bound on what a label can say. Counts nothing itself.

One registry for each process, asked at that process's own address: no files that processes share, nothing that a dead
one leaves behind, and a sum over processes is Prometheus's.
"""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

CONTENT_TYPE = CONTENT_TYPE_LATEST
#: So many different models, or engines, have series of their own; whatever comes later shares one.
NAMES_MAX = 100
OTHER = "other"

_known: dict[str, set[str]] = {"model": set(), "engine": set()}


def text(registry: CollectorRegistry = REGISTRY) -> bytes:
    """All series of a registry as Prometheus reads them; texts of several can be joined."""
    return generate_latest(registry)


def text_of(collector: Collector) -> bytes:
    """The series of one that is not kept in a registry."""
    alone = CollectorRegistry()
    alone.register(collector)
    return text(alone)


def bounded(label: str, name: str) -> str:
    """The name as a value of the label ``model`` or ``engine``, which operators choose and may change for ever."""
    known = _known[label]
    if name in known or len(known) < NAMES_MAX:
        known.add(name)
        return name
    return OTHER
