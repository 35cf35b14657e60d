"""Owns the admin pages of responses: the list of what became of each answer, and one answer's course in time. What was
said is shown where ADMIN_SHOWS_TEXT is set, to who asks for it, and that is noted."""

import json
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from streaming.models import Response

from . import filters, typed_filters
from .attempts import attempts_table
from .course import EVENTS_MAX, course_of, event_table, said
from .drawing import span_text
from .keyset import KeysetChangeList
from .moments import to_the_millisecond
from .text_shown import TextOnRequest, shows_text

SEARCH_MAX_CHARS = 100
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
    "mark",
]
TIMES = [*map(to_the_millisecond, ("created_at", "admitted_at", "ended_at")), "duration", "queue_ms", "ttft_ms"]
INTERVALS = ["itl_p50_ms", "itl_p95_ms", "itl_max_ms"]
STOP = [to_the_millisecond("stop_requested_at"), "stop_ms", "tokens_after_stop", "abort_proven"]
TOKENS = ["prompt_tokens", "cached_tokens", "generated_tokens", "completion_tokens", "sent_tokens", "delivered_tokens"]
TEXT = ["reasoning_text", "output_text"]
#: What the list shows; texts and parameters are not read for it.
LISTED = [
    "id", "created_at", "ended_at", "purpose", "stream", "model", "state", "end_state", "end_reason", "prompt_tokens",
    "generated_tokens", "delivered_tokens", "ttft_ms", "itl_p95_ms",
    "user__username", "engine__name", "api_key__prefix",
]  # fmt: skip


@admin.register(Response)
class ResponseAdmin(TextOnRequest):
    """All answers, refused ones too."""

    list_display = ["response", "who", "served_by", "end", "prompt", "generated", "wasted", "ttft", "itl", "duration"]
    list_filter = [
        typed_filters.TimeFilter,
        filters.EndStateFilter,
        filters.ReasonFilter,
        typed_filters.UserFilter,
        typed_filters.KeyFilter,
        typed_filters.WastedFilter,
        filters.EngineFilter,
        filters.ModelFilter,
        filters.PurposeFilter,
        filters.MarkFilter,
    ]
    search_fields = ["id__startswith"]
    search_help_text = "a response id or its beginning, a conversation id, or a whole user name"
    ordering = ["-created_at"]
    sortable_by = ()
    show_facets = admin.ShowFacets.NEVER

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return KeysetChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).select_related("user", "engine", "api_key")
        match = request.resolver_match
        is_list = match is not None and (match.url_name or "").endswith("_changelist")
        return rows.only(*LISTED) if is_list else rows

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        term = search_term.strip()[:SEARCH_MAX_CHARS]
        if not term:
            return queryset, False
        if term.startswith("conv_"):
            return queryset.filter(conversation_id=term), False
        if term.startswith("resp_"):
            return queryset.filter(id__startswith=term), False
        return typed_filters.of_user(queryset, term), False

    def get_urls(self) -> list[Any]:
        replay = self.admin_site.admin_view(self.replay_view)
        return [path("<path:object_id>/replay/", replay, name="streaming_response_replay"), *super().get_urls()]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        text = [("Text", {"fields": TEXT, "classes": ["collapse"]})] if shows_text(request, obj) else []
        return [
            *text,
            ("Attempts", {"fields": ["attempts_made"]}),
            ("Identity", {"fields": IDENTITY}),
            ("End", {"fields": STATE}),
            ("Times", {"fields": [*TIMES, *INTERVALS]}),
            ("Stop", {"fields": STOP}),
            ("Tokens", {"fields": [*TOKENS, "wasted_tokens", "usage_estimated"]}),
            ("Request", {"fields": ["request_json"], "classes": ["collapse"]}),
            ("Event log", {"fields": ["event_log_with_text" if text else "event_log"], "classes": ["collapse"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for _, options in self.get_fieldsets(request, obj) for name in options["fields"]]

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        """With the course of the row that Django has fetched, and looked whether it may be seen."""
        context |= course_of(obj)
        context["may_see_text"], context["shows_text"] = settings.ADMIN_SHOWS_TEXT, shows_text(request, obj)
        context["may_stop"] = obj.end_state is None and request.user.has_perm("streaming.stop_response")
        context["stop_link"] = reverse("admin:chat_live_stop", args=[obj.pk])
        context["replay_link"] = reverse("admin:streaming_response_replay", args=[quote(obj.pk)])
        answer: HttpResponse = super().render_change_form(request, context, add, change, form_url, obj)
        return answer

    def replay_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The texts of an answer with their times, as JSON."""
        response = self.get_object(request, unquote(object_id))
        if response is None or not self.reveal(request, response, "replayed"):
            raise Http404
        rows = response.events.order_by("seq").values_list("at_ms", "payload")[:EVENTS_MAX]
        return JsonResponse({"events": said(rows)})

    @admin.display(description="response, created (UTC)", ordering="created_at")
    def response(self, response: Response) -> SafeString:
        """Its id and when it came, to the second."""
        return _two(response.id, f"{response.created_at:%Y-%m-%d %H:%M:%S}")

    @admin.display(description="user, key or purpose")
    def who(self, response: Response) -> SafeString:
        """Whose it is, without a link: a list must not ask who may see users."""
        how = f"{response.api_key.prefix}…" if response.api_key else response.purpose
        return _two(response.user.username if response.user else "–", how)

    @admin.display(description="model, engine")
    def served_by(self, response: Response) -> SafeString:
        """What was asked and what answered."""
        return _two(response.model, response.engine.name if response.engine else "–")

    @admin.display(description="end")
    def end(self, response: Response) -> SafeString:
        """What became of it and why; what has not ended says so."""
        state = response.end_state or response.state
        shown = '<span class="state {}">{}</span><br><span class="quiet">{}</span>'
        return format_html(shown, state, state, response.end_reason or "–")

    @admin.display(description="prompt")
    def prompt(self, response: Response) -> int | str:
        """Tokens of the prompt."""
        return "–" if response.prompt_tokens is None else response.prompt_tokens

    @admin.display(description="made")
    def generated(self, response: Response) -> int:
        """Tokens the engine made."""
        return response.generated_tokens

    @admin.display(description="wasted")
    def wasted(self, response: Response) -> int:
        """Of these, tokens that no reader's socket took."""
        return response.wasted_tokens

    @admin.display(description="TTFT")
    def ttft(self, response: Response) -> str:
        """Received to first byte handed to a socket; what is handed over whole has no first token."""
        return _ms(response.ttft_ms if response.stream else None)

    @admin.display(description="ITL p95")
    def itl(self, response: Response) -> str:
        """Between outputs, 95th percentile."""
        return _ms(response.itl_p95_ms)

    @admin.display(description="took")
    def duration(self, response: Response) -> str:
        """Received to end."""
        if response.ended_at is None:
            return "–"
        return span_text((response.ended_at - response.created_at).total_seconds() * 1000)

    @admin.display(description="attempts")
    def attempts_made(self, response: Response) -> SafeString:
        """What each engine that was asked made of it."""
        return attempts_table(response)

    @admin.display(description="parameters")
    def request_json(self, response: Response) -> SafeString:
        """The clamped parameters; the prompt's text is not among them."""
        return format_html("<pre>{}</pre>", json.dumps(response.request, indent=1, sort_keys=True))

    @admin.display(description="events")
    def event_log(self, response: Response) -> SafeString:
        """The stored events in order, without what deltas say."""
        return event_table(response, has_text=False)

    @admin.display(description="events")
    def event_log_with_text(self, response: Response) -> SafeString:
        """The stored events in order."""
        return event_table(response, has_text=True)


def _two(first: str, second: str) -> SafeString:
    """Two lines of a cell."""
    return format_html('{}<br><span class="quiet">{}</span>', first, second)


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"
