"""What a model may call on the page: our own tools, run by us, without a network and without side effects."""

from .catalogue import available, check_settings, definitions
from .running import run

__all__ = ["available", "check_settings", "definitions", "run"]
