"""Owns the admin page of conversations. What was said is shown where ADMIN_SHOWS_TEXT is set, to who asks for it, and
that is noted."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from streaming.models import Conversation, Message
from streaming.store import conversations as store

from . import filters, typed_filters
from .keyset import KeysetChangeList
from .responses import SEARCH_MAX_CHARS
from .text_shown import TextOnRequest, shows_text


@admin.register(Conversation)
class ConversationAdmin(TextOnRequest):
    """Threads by user and time, without their titles: those are what somebody asked."""

    list_display = ["id", "user", "model", "message_count", "created_at", "updated_at"]
    list_select_related = ["user"]
    list_filter = [typed_filters.TimeFilter, typed_filters.UserFilter, filters.ModelFilter]
    search_fields = ["id__startswith"]
    search_help_text = "a conversation id or its beginning, or a whole user name"
    ordering = ["-created_at"]
    sortable_by = ()
    show_facets = admin.ShowFacets.NEVER

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return KeysetChangeList

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        term = search_term.strip()[:SEARCH_MAX_CHARS]
        if not term:
            return queryset, False
        if term.startswith("conv_"):
            return queryset.filter(id__startswith=term), False
        return typed_filters.of_user(queryset, term), False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        text = ["title", "said"] if shows_text(request, obj) else ["hidden"] if settings.ADMIN_SHOWS_TEXT else []
        return ["id", "user", "model", "created_at", "updated_at", "responses", *text]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        # Not a join: it would count the messages of every conversation to show those of fifty.
        turns = Message.objects.filter(conversation=OuterRef("pk")).order_by().values("conversation")
        counted: QuerySet[Any] = rows.annotate(
            _messages=Coalesce(Subquery(turns.annotate(n=Count("id")).values("n")), 0)
        )
        return counted

    @admin.display(description="messages")
    def message_count(self, conversation: Any) -> int:
        """How many turns it has."""
        return int(conversation._messages)

    @admin.display(description="answers")
    def responses(self, conversation: Conversation) -> SafeString:
        """What was answered in it, with how that went."""
        rows = conversation.responses.order_by("created_at").values_list("id", "end_state", "end_reason")
        links = (
            (reverse("admin:streaming_response_change", args=[quote(pk)]), pk, state or "not ended", reason)
            for pk, state, reason in rows
        )
        return format_html_join("", '<p><a href="{}"><code>{}</code></a> {} {}</p>', links)

    @admin.display(description="what was said")
    def hidden(self, conversation: Conversation) -> SafeString:
        """How to see it."""
        return mark_safe('<a class="button" href="?text=1">Show</a> Each look is noted in the audit log.')

    @admin.display(description="messages")
    def said(self, conversation: Conversation) -> SafeString:
        """All turns as text, never as HTML."""
        rows = ((turn.message.role, turn.text) for turn in store.turns(conversation))
        return format_html_join("", "<p><strong>{}</strong></p><pre>{}</pre>", rows)
