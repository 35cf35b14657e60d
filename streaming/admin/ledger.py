"""Owns the admin page of the ledger: what comparisons of the books found. Compares nothing."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from streaming.models import LedgerCheck

from .read_only import ReadOnlyAdmin


class DriftFilter(admin.SimpleListFilter):
    """Only what does not agree."""

    title = "verdict"
    parameter_name = "drifts"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("yes", "drifts"), ("no", "agrees")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        if not self.value():
            return None
        return queryset.filter(drift=0) if self.value() == "no" else queryset.exclude(drift=0)


@admin.register(LedgerCheck)
class LedgerCheckAdmin(ReadOnlyAdmin):
    """Newest first."""

    list_display = ["checked_at", "kind", "subject", "seen", "low", "high", "drift", "message", "since", "until"]
    list_filter = [DriftFilter, "kind", "checked_at"]
    ordering = ["-checked_at", "-id"]
