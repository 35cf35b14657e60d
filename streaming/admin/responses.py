"""Owns the admin page of responses: what became of each answer, its timings and tokens. What was said stays hidden
unless ADMIN_SHOWS_TEXT is set."""

import json
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from streaming.models import Response, ResponseEvent

from .attempts import attempts_table
from .read_only import ReadOnlyAdmin

EVENTS_SHOWN = 500
IDENTITY = ["id", "user", "api_key", "conversation_id", "purpose", "dialect", "stream", "model", "engine", "policy"]
STATE = [
    "state",
    "end_state",
    "end_reason",
    "finish_reason",
    "error_code",
    "error_message",
    "owner",
    "epoch",
]
TIMES = ["created_at", "admitted_at", "ended_at", "duration_ms", "queue_ms", "ttft_ms"]
INTERVALS = ["itl_p50_ms", "itl_p95_ms", "itl_max_ms"]
STOP = ["stop_requested_at", "stop_ms", "tokens_after_stop", "abort_proven"]
TOKENS = ["prompt_tokens", "cached_tokens", "generated_tokens", "completion_tokens", "sent_tokens", "delivered_tokens"]
TEXT = ["reasoning_text", "output_text"]


@admin.register(Response)
class ResponseAdmin(ReadOnlyAdmin):
    """All answers, refused ones too."""

    list_display = [
        "id", "user", "engine", "model", "purpose", "state", "end_state", "end_reason",
        "prompt", "generated", "completion", "sent", "delivered", "ttft", "created_at",
    ]  # fmt: skip
    list_select_related = ["user", "engine"]
    list_filter = ["end_state", "end_reason", "purpose", "engine", "model", "created_at"]
    search_fields = ["^id", "user__username"]
    search_help_text = "start of a response id, or a user name"
    ordering = ["-created_at"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        text = [("Text", {"fields": TEXT})] if settings.ADMIN_SHOWS_TEXT else []
        return [
            (None, {"fields": IDENTITY}),
            ("End", {"fields": STATE}),
            ("Attempts", {"fields": ["attempts_made"]}),
            ("Times", {"fields": [*TIMES, *INTERVALS]}),
            ("Stop", {"fields": STOP}),
            ("Tokens", {"fields": [*TOKENS, "wasted_tokens", "usage_estimated"]}),
            ("Request", {"fields": ["request_json"]}),
            *text,
            ("Event log", {"fields": ["event_log"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for _, options in self.get_fieldsets(request, obj) for name in options["fields"]]

    @admin.display(description="prompt", ordering="prompt_tokens")
    def prompt(self, response: Response) -> int | None:
        """Tokens of the prompt."""
        return response.prompt_tokens

    @admin.display(description="generated", ordering="generated_tokens")
    def generated(self, response: Response) -> int:
        """Tokens the engine made."""
        return response.generated_tokens

    @admin.display(description="completion", ordering="completion_tokens")
    def completion(self, response: Response) -> int:
        """Tokens the answer consumed."""
        return response.completion_tokens

    @admin.display(description="sent", ordering="sent_tokens")
    def sent(self, response: Response) -> int:
        """Tokens stored and visible."""
        return response.sent_tokens

    @admin.display(description="delivered", ordering="delivered_tokens")
    def delivered(self, response: Response) -> int:
        """Tokens written to a reader's socket."""
        return response.delivered_tokens

    @admin.display(description="TTFT ms", ordering="ttft_ms")
    def ttft(self, response: Response) -> str:
        """Received to first byte handed to a socket."""
        return "-" if response.ttft_ms is None else f"{response.ttft_ms:.0f}"

    @admin.display(description="attempts")
    def attempts_made(self, response: Response) -> SafeString:
        """What each engine that was asked made of it."""
        return attempts_table(response)

    @admin.display(description="duration ms")
    def duration_ms(self, response: Response) -> str:
        """Received to end."""
        if response.ended_at is None:
            return "-"
        return f"{(response.ended_at - response.created_at).total_seconds() * 1000:.0f}"

    @admin.display(description="parameters")
    def request_json(self, response: Response) -> SafeString:
        """The clamped parameters; the prompt's text is not among them."""
        return format_html("<pre>{}</pre>", json.dumps(response.request, indent=1, sort_keys=True))

    @admin.display(description="events")
    def event_log(self, response: Response) -> SafeString:
        """The stored events in order; the text of deltas only where text may be shown."""
        events = list(response.events.order_by("seq").defer("token_ids")[: EVENTS_SHOWN + 1])
        rows = ((e.seq, e.epoch, e.kind, e.token_count, _payload(e)) for e in events[:EVENTS_SHOWN])
        body = format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", rows)
        more = f"Only the first {EVENTS_SHOWN} events are shown." if len(events) > EVENTS_SHOWN else ""
        head = "<tr><th>seq</th><th>epoch</th><th>kind</th><th>tokens</th><th>payload</th></tr>"
        return format_html("<table><thead>" + head + "</thead><tbody>{}</tbody></table><p>{}</p>", body, more)


def _payload(event: ResponseEvent) -> str:
    payload = event.payload
    if not settings.ADMIN_SHOWS_TEXT and event.kind not in {"started", "continued", "ended"}:
        return ", ".join(f"{name}: {_size(value)}" for name, value in payload.items())
    return json.dumps(payload, ensure_ascii=False)


def _size(value: Any) -> str:
    return f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
