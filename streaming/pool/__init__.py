"""Who may use which engine. Knows no response row and no reader."""

from .pool import Lease, Overloaded, Pool, UnknownModel
from .waiting import Wish

__all__ = ["Lease", "Overloaded", "Pool", "UnknownModel", "Wish"]
