"""Who runs which response: launching relays, stopping them, taking over what a dead process left."""

from .owner import Owner, current
from .process import guards, readiness, start_process, stop_process

__all__ = ["Owner", "current", "guards", "readiness", "start_process", "stop_process"]
