"""Owns deleting in the admin what many rows refer to. What has to be done to those is the store's."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from .audit_trail import Audited


class DeletedWhole(Audited):
    """What hangs on a row goes with it, also what nobody deletes by hand; it is counted, not named."""

    #: That of it which people know of: models with their field that names the row.
    goes_along: ClassVar[Mapping[type[Model], str]] = {}

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        rows = list(objs)
        may = all(self.has_delete_permission(request, row) for row in rows)
        counts = {str(self.opts.verbose_name_plural): len(rows)}
        for model, field in self.goes_along.items():
            those = model._default_manager.filter(**{f"{field}__in": rows})
            counts[str(model._meta.verbose_name_plural)] = those.count()
        return [str(row) for row in rows], counts, set() if may else {str(self.opts.verbose_name)}, []


class DeletedInSteps(DeletedWhole):
    """Django's deletion is one transaction, whose rows others wait for: what takes long comes before it."""

    def before_deletion(self, obj: Any) -> None:
        """What is done first, in transactions of its own."""
        raise NotImplementedError

    def hold(self, obj: Any) -> None:
        """What is locked in the deletion's own transaction, before Django looks what belongs to it."""

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        obj: Model | None = self.get_object(request, unquote(object_id)) if request.method == "POST" else None
        if obj is not None and self.has_delete_permission(request, obj):
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
