"""The journal: the one writer of event logs in a process, and the tails it keeps of live responses."""

from .journal import Closing, Journal
from .tail import Listener, Tail

__all__ = ["Closing", "Journal", "Listener", "Tail"]
