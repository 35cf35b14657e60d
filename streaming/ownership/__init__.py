"""Who runs which response: launching relays, stopping them, taking over what a dead process left."""

from .owner import Owner, current
from .process import guards, metrics, readiness, start_process, stop_process

__all__ = ["Owner", "current", "guards", "metrics", "readiness", "start_process", "stop_process"]
