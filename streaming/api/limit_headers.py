"""Owns the headers that tell a caller of its limits, in its dialect's words. Counts nothing."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from streaming.protocol.dialects import ANTHROPIC

#: A wait that no client should sit out: the SDKs of both makers heed the header that says so.
LONGEST_RETRY_S = 60


def limit_headers(dialect: str, left: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """For what a quota leaves of ``requests`` and ``tokens``; none where nothing is limited."""
    headers: dict[str, str] = {}
    for name, figures in left.items():
        limit, remaining, reset_s = figures["limit"], figures["remaining"], figures["reset_s"]
        if dialect == ANTHROPIC:
            prefix = f"anthropic-ratelimit-{name}"
            at = datetime.fromtimestamp(reset_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            headers |= {f"{prefix}-limit": str(limit), f"{prefix}-remaining": str(remaining), f"{prefix}-reset": at}
        else:
            headers |= {
                f"x-ratelimit-limit-{name}": str(limit),
                f"x-ratelimit-remaining-{name}": str(remaining),
                f"x-ratelimit-reset-{name}": duration(reset_s - figures["now_s"]),
            }
    return headers


def retry_headers(status: int, retry_after_s: float | None) -> dict[str, str]:
    """When to come back. Waiting longer than a minute, or in vain, is no client's business to try."""
    headers = {} if retry_after_s is None else {"Retry-After": str(math.ceil(retry_after_s))}
    if status == 429 and (retry_after_s is None or retry_after_s > LONGEST_RETRY_S):
        headers["x-should-retry"] = "false"
    return headers


def duration(seconds: int) -> str:
    """As 1h0m5s, 2m0s, 7s."""
    hours, rest = divmod(max(0, seconds), 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
