"""Owns the admin page of API keys: who has which, used when, and how to revoke it. Never shows a key or its hash."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from streaming.models import ApiKey
from streaming.store import access

from .read_only import ReadOnlyAdmin


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys by their first characters."""

    list_display = ["prefix", "name", "user", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_select_related = ["user"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), "created_at"]
    search_fields = ["^prefix", "name", "user__username"]
    ordering = ["-created_at"]
    fields = ["prefix", "name", "user", "created_at", "last_used_at", "expires_at", "revoked_at"]
    actions = ["revoke"]

    @admin.action(description="Revoke the selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """From the next request on they are refused."""
        count = access.revoke_keys(list(queryset.values_list("pk", flat=True)))
        self.message_user(request, f"{count} key(s) revoked.", messages.SUCCESS)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever may change keys; the form itself stays read-only."""
        return request.user.has_perm("streaming.change_apikey")
