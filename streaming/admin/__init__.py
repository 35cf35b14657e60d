"""The admin's pages. Looking is allowed; changing only where a page says so."""

from . import api_keys, conversations, engines, responses

__all__ = ["api_keys", "conversations", "engines", "responses"]
