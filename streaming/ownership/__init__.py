"""Who runs which response: launching relays, stopping them, taking over what a dead process left."""

from .owner import Owner, current
from .process import guards, start_process, stop_process, trouble

__all__ = ["Owner", "current", "guards", "start_process", "stop_process", "trouble"]
