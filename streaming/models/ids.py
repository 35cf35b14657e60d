"""Owns how public ids are made: a prefix and a ULID, so that they sort by time. Knows no table."""

from ulid import ULID


def response_id() -> str:
    """A new response id, ``resp_`` and 26 characters of Crockford base 32."""
    return f"resp_{ULID()}"


def conversation_id() -> str:
    """A new conversation id."""
    return f"conv_{ULID()}"


def message_id() -> str:
    """A new message id."""
    return f"msg_{ULID()}"
