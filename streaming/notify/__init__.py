"""Wake-ups between processes: at a response's owner and its readers, and at the open pages of a user. All lossy."""

from .change import CONVERSATIONS, ENDED, SIGNED_OUT, STARTED, TITLE, Change
from .changes import Changes
from .doorbell import Doorbell
from .telling import tell

__all__ = ["CONVERSATIONS", "ENDED", "SIGNED_OUT", "STARTED", "TITLE", "Change", "Changes", "Doorbell", "tell"]
