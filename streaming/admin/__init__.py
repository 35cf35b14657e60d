"""The admin's pages. Looking is allowed; changing only where a page says so."""

from . import api_keys, conversations, engines, responses
from .read_only import ReadOnlyAdmin

__all__ = ["ReadOnlyAdmin", "api_keys", "conversations", "engines", "responses"]
