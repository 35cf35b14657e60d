"""The relay: engine to log, one per running response, independent of any request."""

from .abort import Unproven
from .job import Job, Limits
from .relay import Relay

__all__ = ["Job", "Limits", "Relay", "Unproven"]
