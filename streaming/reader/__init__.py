"""The reader: one log to one connection, wherever the response runs."""

from .attendance import Attendance
from .reader import Reader

__all__ = ["Attendance", "Reader"]
