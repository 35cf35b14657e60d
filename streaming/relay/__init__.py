"""The relay: engine to log, one per running response, independent of any request."""

from .abort import Unproven
from .job import Job, Limits, Outset
from .relay import Relay
from .rounds import Tools

__all__ = ["Job", "Limits", "Outset", "Relay", "Tools", "Unproven"]
