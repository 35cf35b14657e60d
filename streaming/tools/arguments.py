"""Owns judging a call's arguments by its tool's schema, in words for the model: field, limit, value. Calls nothing."""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import relevance

VALUE_CHARS = 40


def fault(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with them; None where nothing is."""
    error = min(Draft202012Validator(schema).iter_errors(arguments), key=relevance, default=None)
    if error is not None:
        return _said(error)
    return next((f"{name}: {why}" for name, value in arguments.items() if (why := _unstorable(value))), None)


def _said(error: ValidationError) -> str:
    """In our own words: the library's quote the whole value."""
    field = ".".join(str(step) for step in error.path)
    limit: Any = error.validator_value
    value: Any = error.instance
    if error.validator == "required":
        missing = next(name for name in limit if name not in value)
        return f"{missing}: this field is required"
    if error.validator == "additionalProperties":
        schema: Any = error.schema
        known = schema["properties"]
        unknown = next(name for name in value if name not in known)
        return f"{shown(unknown)}: unknown field; there are {', '.join(known) or 'none'}"
    if error.validator == "type":
        return f"{field}: must be a {limit} (got {shown(value)})"
    bound = "at most" if error.validator == "maxLength" else "at least"
    return f"{field}: {bound} {limit} characters (got {len(value)})"


def shown(value: Any) -> str:
    """A value in few characters, none of which a database refuses."""
    if isinstance(value, str):
        return repr(value[:VALUE_CHARS]) + ("…" if len(value) > VALUE_CHARS else "")
    if isinstance(value, list):
        return f"an array of {len(value)} items"
    return f"an object with {len(value)} keys" if isinstance(value, dict) else repr(value)[:VALUE_CHARS]


def _unstorable(value: Any) -> str | None:
    """JSON may spell what is no text: NUL, which databases refuse, and halves of characters."""
    if not isinstance(value, str):
        return None
    if "\0" in value:
        return "NUL is not allowed in text"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "half a character is no text"
    return None
