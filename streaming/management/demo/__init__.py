"""A made-up site's past: who used it, what they were answered and how that went. Stores nothing itself."""

from .answers import Answers
from .logs import log_of
from .people import People, make_people

__all__ = ["Answers", "People", "log_of", "make_people"]
