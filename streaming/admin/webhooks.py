"""Owns the admin pages of webhooks: who is told, what has yet to be told, and telling again what was given up."""

from typing import ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from streaming.audit import note
from streaming.models import WebhookDelivery, WebhookEndpoint
from streaming.store import outbox

from .deletion import DeletedWhole
from .read_only import ReadOnlyAdmin


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(DeletedWhole):
    """Addresses that are told of every response that ends. Secrets stand in the environment, not here."""

    list_display = ["name", "url", "secret_env", "enabled"]
    list_filter = ["enabled"]
    ordering = ["name"]
    goes_along: ClassVar = {WebhookDelivery: "endpoint"}


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    """One response for one endpoint. Filter by state ``dead`` for what was given up."""

    list_display = ["response_id", "endpoint", "state", "attempts", "last_status", "last_error", "created_at", "due_at"]
    list_select_related = ["endpoint"]
    list_filter = ["state", "endpoint", "created_at"]
    search_fields = ["^response_id"]
    ordering = ["-created_at"]
    actions = ["send_again"]

    @admin.action(description="Send the selected deliveries again", permissions=["send"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> None:
        """Due at once, with as many attempts as a new one."""
        deliveries = list(queryset)
        count = outbox.send_again([delivery.pk for delivery in deliveries])
        for delivery in deliveries:
            note(request, request.user, "sent again", delivery, {"name": str(delivery)})
        self.message_user(request, f"{count} delivery(s) will be sent again.", messages.SUCCESS)

    def has_send_permission(self, request: HttpRequest) -> bool:
        """Whoever may change deliveries; the form itself stays read-only."""
        return request.user.has_perm("streaming.change_webhookdelivery")
