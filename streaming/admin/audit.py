"""Owns the admin page of the audit log: what staff did and saw. It can be read here and nothing else."""

import json
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from streaming.models import AuditEntry

from .keyset import KeysetChangeList
from .read_only import ReadOnlyAdmin
from .responses import SEARCH_MAX_CHARS
from .typed_filters import TypedFilter


class ActorFilter(TypedFilter):
    """Who it was."""

    title = "who"
    parameter_name = "actor"
    hint = "whole name"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        return queryset.filter(actor=self.typed()) if self.typed() else None


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    """Newest first."""

    list_display = ["when", "actor", "action", "target", "what", "address"]
    list_display_links = None
    list_filter = [ActorFilter]
    search_fields = ["target_id"]
    search_help_text = "the whole id of what it was done to"
    ordering = ["-at"]
    keyset_field = "at"
    sortable_by = ()
    show_facets = admin.ShowFacets.NEVER

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return KeysetChangeList

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        term = search_term.strip()[:SEARCH_MAX_CHARS]
        return (queryset.filter(target_id=term) if term else queryset), False

    @admin.display(description="when (UTC)")
    def when(self, entry: AuditEntry) -> str:
        """To the second."""
        return f"{entry.at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="on what")
    def target(self, entry: AuditEntry) -> SafeString | str:
        """Linked where it has a page; it may be gone."""
        if not entry.target_kind:
            return "–"
        for app in ("streaming", "auth"):
            try:
                link = reverse(f"admin:{app}_{entry.target_kind}_change", args=[quote(entry.target_id)])
            except NoReverseMatch:
                continue
            return format_html('{} <a href="{}">{}</a>', entry.target_kind, link, entry.target_id)
        return f"{entry.target_kind} {entry.target_id}"

    @admin.display(description="detail")
    def what(self, entry: AuditEntry) -> str:
        """What else is known."""
        return ", ".join(
            f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in entry.detail.items()
        )
