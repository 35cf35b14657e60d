"""Owns deleting in the admin what many rows refer to. What has to be done to those is the store's."""

from typing import Any

from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from .audit_trail import Audited


class DeletedInSteps(Audited):
    """Django's deletion is one transaction, whose rows others wait for: what takes long comes before it."""

    def before_deletion(self, obj: Any) -> None:
        """What is done first, in transactions of its own."""
        raise NotImplementedError

    def hold(self, obj: Any) -> None:
        """What is locked in the deletion's own transaction, before Django looks what belongs to it."""

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        obj: Model | None = self.get_object(request, unquote(object_id)) if request.method == "POST" else None
        if obj is not None and self.has_delete_permission(request, obj):
            *_, missing, protected = self.get_deleted_objects([obj], request)
            if not (missing or protected):
                self.before_deletion(obj)
        return super().delete_view(request, object_id, extra_context)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """The list's action: Django has asked whether it may."""
        for obj in queryset:
            self.before_deletion(obj)
        with transaction.atomic():
            for obj in queryset.order_by("pk"):
                self.hold(obj)
            super().delete_queryset(request, queryset)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """In the view's transaction."""
        self.hold(obj)
        super().delete_model(request, obj)
