"""Owns the admin pages of quotas and prices: what a caller may use, what is in use, what tokens cost."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from streaming.models import ModelPrice, Quota
from streaming.store import quotas

from .audit_trail import Audited

LIMITS = (
    "concurrent_streams", "requests_per_minute", "tokens_per_minute", "tokens_per_day", "tokens_per_month",
    "max_output_tokens", "models_allowed",
)  # fmt: skip


@admin.register(Quota)
class QuotaAdmin(Audited):
    """One row for a user, a group or an API key; seen by new requests within seconds."""

    list_display = ["__str__", *LIMITS, "is_shared"]
    list_filter = [("group", admin.EmptyFieldListFilter), ("api_key", admin.EmptyFieldListFilter)]
    search_fields = ["user__username", "group__name", "^api_key__prefix", "api_key__name"]
    autocomplete_fields = ["user", "group", "api_key"]
    ordering = ["id"]
    fields = [("user", "group", "api_key"), "is_shared", *LIMITS, "in_use"]
    readonly_fields = ["in_use"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Quota]:
        rows: QuerySet[Quota] = super().get_queryset(request)
        return rows.select_related("user", "group", "api_key__user")

    @admin.display(description="in use now")
    def in_use(self, quota: Quota) -> SafeString | str:
        """Streams, and requests and tokens of the windows that now is in; for a group that shares nothing, of each."""
        rows = quotas.in_use(quota, timezone.now().timestamp())
        lines = ((f"user {member}: " if member else "", text) for member, text in rows)
        return format_html_join("", "<p>{}{}</p>", lines) or "nothing"


@admin.register(ModelPrice)
class ModelPriceAdmin(Audited):
    """A price counts for the responses that begin after it; a later row replaces it. Nothing ended is priced anew."""

    list_display = ["model", "valid_from", "currency", "input_price", "cached_price", "output_price"]
    list_filter = ["model"]
    ordering = ["model", "-valid_from"]
