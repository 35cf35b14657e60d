"""Owns the admin page of conversations. What was said stays hidden unless ADMIN_SHOWS_TEXT is set."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from streaming.models import Conversation
from streaming.store import conversations as store

from .read_only import ReadOnlyAdmin


@admin.register(Conversation)
class ConversationAdmin(ReadOnlyAdmin):
    """Threads by user and time."""

    list_select_related = ["user"]
    list_filter = ["model", "updated_at"]
    search_fields = ["^id", "user__username"]
    ordering = ["-updated_at"]

    def get_list_display(self, request: HttpRequest) -> Any:
        title = ["title"] if settings.ADMIN_SHOWS_TEXT else []
        return ["id", "user", *title, "model", "message_count", "created_at", "updated_at"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        text = ["title", "said"] if settings.ADMIN_SHOWS_TEXT else []
        return ["id", "user", "model", "created_at", "updated_at", *text]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = rows.annotate(_messages=Count("messages"))
        return counted

    @admin.display(description="messages", ordering="_messages")
    def message_count(self, conversation: Any) -> int:
        """How many turns it has."""
        return int(conversation._messages)

    @admin.display(description="messages")
    def said(self, conversation: Conversation) -> SafeString:
        """All turns as text, never as HTML."""
        rows = ((turn.message.role, turn.text) for turn in store.turns(conversation))
        return format_html_join("", "<p><strong>{}</strong></p><pre>{}</pre>", rows)
