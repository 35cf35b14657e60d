"""Owns filters by one of a few values: each is served by an index and reads no list that grows with use."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from streaming.models import Engine, Response
from streaming.protocol.end_state import END_STATES, REASONS

ENGINES_MAX = 200


class EndStateFilter(admin.SimpleListFilter):
    """What became of it; also what has not ended."""

    title = "end state"
    parameter_name = "end_state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("none", "not ended"), *((state, state) for state in END_STATES)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        if not value:
            return None
        return queryset.filter(end_state__isnull=True) if value == "none" else queryset.filter(end_state=value)


class EqualsFilter(admin.SimpleListFilter):
    """One of a few values of a column; ``column`` is its name."""

    column: str

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        return queryset.filter((self.column, value)) if value else None


class ReasonFilter(EqualsFilter):
    """Why it ended: the reasons of the chosen end state; without one only what an address names is shown."""

    title = "reason"
    parameter_name = column = "end_reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        asked = request.GET.get(self.parameter_name, "")
        reasons = REASONS.get(request.GET.get("end_state", ""), (asked,) if asked else ())
        return [(reason, reason) for reason in reasons]


class PurposeFilter(EqualsFilter):
    """What it was made for."""

    title = "purpose"
    parameter_name = column = "purpose"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return Response.Purpose.choices


class MarkFilter(EqualsFilter):
    """What its user thinks of it."""

    title = "mark"
    parameter_name = column = "mark"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return Response.Mark.choices


class EngineFilter(admin.SimpleListFilter):
    """Which engine served it."""

    title = "engine"
    parameter_name = "engine"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [(str(pk), name) for pk, name, _ in _engines(request)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        if not value:
            return None
        return queryset.filter(engine_id=int(value)) if value.isdecimal() else queryset.none()


class ModelFilter(EqualsFilter):
    """Which model was asked: those that engines serve, or have served."""

    title = "model"
    parameter_name = column = "model"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [(name, name) for name in sorted({model for _, _, model in _engines(request)})]


def _engines(request: HttpRequest) -> list[tuple[int, str, str]]:
    """Asked once a request, for two filters."""
    known: Any = request
    if not hasattr(known, "_engines_to_filter"):
        rows = Engine.objects.order_by("name").values_list("id", "name", "model")
        known._engines_to_filter = list(rows[:ENGINES_MAX])
    found: list[tuple[int, str, str]] = known._engines_to_filter
    return found
