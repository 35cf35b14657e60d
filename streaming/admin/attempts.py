"""Owns how the admin shows the attempts of a response. Counts and decides nothing."""

from collections.abc import Mapping
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from streaming.models import Response

#: How a count reads that the engine did not give.
COUNTS = {"exact": "{}", "at_least": "at least {}", "estimated": "about {}"}
HEAD = ("engine", "request", "started", "first output ms", "ms", "read", "made", "ended", "abort")


def attempts_table(response: Response) -> SafeString:
    """Which engines were asked, what each read and made, how each ended; what is not known is a dash."""
    if not response.attempts:
        return format_html("{}", "no engine was asked")
    head = format_html_join("", "<th>{}</th>", ((name,) for name in HEAD))
    rows = format_html_join("", "<tr>{}</tr>", ((_cells(attempt),) for attempt in response.attempts))
    return format_html("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", head, rows)


def _cells(attempt: Mapping[str, Any]) -> SafeString:
    shown = (
        attempt["engine"],
        attempt["request_id"],
        attempt["started_at"],
        attempt["first_output_ms"],
        attempt["duration_ms"],
        attempt["prompt_tokens"],
        COUNTS[attempt["count"]].format(attempt["generated_tokens"]),
        attempt["ended"],
        _abort(attempt),
    )
    return format_html_join("", "<td>{}</td>", (("-" if value in (None, "") else value,) for value in shown))


def _abort(attempt: Mapping[str, Any]) -> str | None:
    if (proven := attempt["abort_proven"]) is None:
        return None
    late_ms = attempt.get("abort_proven_ms")
    return "not proven" if not proven else "proven" if late_ms is None else f"proven after {late_ms:.0f} ms"
