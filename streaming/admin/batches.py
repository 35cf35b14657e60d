"""Owns the admin page of batches: how far each is, and cancelling one. Shows nothing that their users wrote."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from streaming.audit import note
from streaming.models import Batch
from streaming.store import batches

from .read_only import ReadOnlyAdmin


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """Files of requests and how far they are. What is in them is nowhere in the admin."""

    list_display = ["id", "user", "status", "endpoint", "total", "completed", "failed", "created_at", "expires_at"]
    list_select_related = ["user"]
    list_filter = ["status", "endpoint", "created_at"]
    search_fields = ["=id", "=user__username", "=input_file_id", "=output_file_id"]
    ordering = ["-id"]
    exclude = ["metadata", "errors"]
    actions = ["cancel_selected"]

    @admin.action(description="Cancel the selected batches", permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        """What runs of them is stopped; what is answered stays. Those that have ended are left as they are."""
        count = 0
        for batch in queryset.filter(status__in=Batch.UNFINISHED):
            # First: what cannot be noted is not done.
            note(request, request.user, "cancelled", batch)
            count += batches.cancel(batch.id, "admin")
        self.message_user(request, f"{count} batch(es) will be cancelled.", messages.SUCCESS)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whoever may stop what runs."""
        return request.user.has_perm("streaming.cancel_batch")
