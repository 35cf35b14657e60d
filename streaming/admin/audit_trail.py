"""Owns how the admin's pages note what staff does and sees. The table is ``AuditEntry``; nothing is shown here."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import AbstractUser
from django.db.models import Model
from django.http import HttpRequest

from streaming.models import AuditEntry


def note(
    request: HttpRequest, user: Any, action: str, target: Model | None = None, detail: dict[str, Any] | None = None
) -> None:
    """Store that a user did something, to a row or in general."""
    assert isinstance(user, AbstractUser)
    AuditEntry.objects.create(
        actor_id=user.pk,
        actor=user.get_username(),
        action=action,
        target_kind=target._meta.model_name or "" if target else "",
        target_id=str(target.pk) if target else "",
        detail=detail or {},
        address=request.META.get("REMOTE_ADDR") or "",
    )


class Audited(admin.ModelAdmin):  # type: ignore[type-arg]
    """Every adding, changing and deleting by its form or action is noted with the names of the changed fields."""

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        note(request, request.user, "added", obj, {"name": _name(obj)})
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        note(request, request.user, "changed", obj, {"name": _name(obj), "fields": _fields(message)})
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for obj in queryset:
            note(request, request.user, "deleted", obj, {"name": _name(obj)})
        return super().log_deletions(request, queryset)


def _name(obj: Model) -> str:
    return str(obj)[:200]


def _fields(message: Any) -> list[str]:
    """The names of changed fields out of Django's change message; a text of another kind says nothing of fields."""
    if not isinstance(message, list):
        return []
    return [name for part in message for name in part.get("changed", {}).get("fields", [])]
