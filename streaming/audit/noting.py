"""Owns how what people do with accounts, keys and pages is noted, in the table ``AuditEntry``. Shows nothing."""

from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import Model
from django.http import HttpRequest

from streaming.models import AuditEntry

from .address import client_address


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
        address=client_address(request),
    )
