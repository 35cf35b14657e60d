"""Owns what a page that only shows has in common. Shows no table itself."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that the product writes: no adding, no changing, no deleting by hand."""

    actions: Any = None
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | Any | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | Any | None = None) -> bool:
        return False
