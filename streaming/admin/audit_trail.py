"""Owns that what staff changes by the admin's forms is noted, and when staff signs in. How: streaming.audit."""

from typing import Any

from django.contrib.auth.models import AbstractUser
from django.contrib.auth.signals import user_logged_in
from django.db.models import Model
from django.http import HttpRequest

from streaming.audit import note

from .change_list import Listed


class Audited(Listed):
    """Every adding, changing and deleting by its form or action is noted with the names of the changed fields."""

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        note(request, request.user, "added", obj, {"name": _name(obj)})
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        what = {"what": message} if isinstance(message, str) else {"fields": _fields(message)}
        note(request, request.user, "changed", obj, {"name": _name(obj), **what})
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for obj in queryset:
            note(request, request.user, "deleted", obj, {"name": _name(obj)})
        return super().log_deletions(request, queryset)


def _name(obj: Model) -> str:
    return str(obj)[:200]


def _fields(message: list[dict[str, Any]]) -> list[str]:
    """The names of changed fields out of Django's change message; never their values."""
    return [name for part in message for name in part.get("changed", {}).get("fields", [])]


def _signed_in(sender: Any, request: HttpRequest, user: AbstractUser, **signal: Any) -> None:
    if user.is_staff:
        note(request, user, "signed in")


user_logged_in.connect(_signed_in, dispatch_uid="streaming.admin.signed_in")
