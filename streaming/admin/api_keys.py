"""Owns the admin page of API keys: who has which, used when, and how to revoke it. Never shows a key or its hash."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from streaming.models import ApiKey
from streaming.store import access

from .audit_trail import note
from .read_only import ReadOnlyAdmin
from .used import used_lately


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys by their first characters."""

    list_display = ["prefix", "name", "user", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_select_related = ["user"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), "created_at"]
    search_fields = ["^prefix", "name", "user__username"]
    ordering = ["-created_at"]
    fields = ["prefix", "name", "user", "used", "created_at", "last_used_at", "expires_at", "revoked_at"]
    readonly_fields = ["used"]
    actions = ["revoke"]

    @admin.action(description="Revoke the selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """From the next request on they are refused."""
        keys = list(queryset)
        count = access.revoke_keys([key.pk for key in keys])
        for key in keys:
            note(request, request.user, "revoked", key, {"name": str(key)})
        self.message_user(request, f"{count} key(s) revoked.", messages.SUCCESS)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever may change keys; the form itself stays read-only."""
        return request.user.has_perm("streaming.change_apikey")

    @admin.display(description="last 30 days")
    def used(self, key: ApiKey) -> SafeString:
        """Sums of the daily rollups, and the way to the responses."""
        link = f"{reverse('admin:streaming_response_changelist')}?key={key.prefix}"
        return format_html('{} · <a href="{}">Responses</a>', used_lately(api_key_id=key.pk), link)
