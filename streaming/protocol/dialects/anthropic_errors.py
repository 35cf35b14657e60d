"""Owns what an error looks like in Anthropic's dialect: before a stream, with its status, and inside one."""

from collections.abc import Mapping
from typing import Any

OVERLOADED_STATUS = 529
#: By status, as their SDKs know them; what is not here is the server's fault from 500 on, else the request's.
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_TYPES_OF_REASONS = {"queue": "overloaded_error", **dict.fromkeys(("ttft", "idle", "total"), "timeout_error")}


def failure(status: int, error: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body for one of our error objects; a server that is full has a status of its own."""
    kind = _TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return OVERLOADED_STATUS if status == 503 else status, shaped(kind, error)


def in_band(error: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an error event."""
    return shaped(_TYPES_OF_REASONS.get(error.get("end_reason", ""), "api_error"), error)


def shaped(kind: str, error: Mapping[str, Any]) -> dict[str, Any]:
    """Theirs are ``type`` and ``message``; what else we know stands beside them."""
    return {"type": "error", "error": {**error, "type": kind}}
