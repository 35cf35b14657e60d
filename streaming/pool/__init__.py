"""Who may use which engine. Knows no response row and no reader."""

from .lease import Lease
from .pool import AllDrained, Overloaded, Pool, UnknownModel
from .waiting import Wish

__all__ = ["AllDrained", "Lease", "Overloaded", "Pool", "UnknownModel", "Wish"]
