"""The reader: one log to one connection, wherever the response runs."""

from .reader import Reader

__all__ = ["Reader"]
