"""Owns filters by what a person types in: a user, a key, a number, times. Each is served by an index."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import User
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from streaming.models import ApiKey

#: Django knows its own choices only; these are for templates of ours.
Choices = Iterator[Any]
KEYS_MAX = 100
TYPED_MAX_CHARS = 200


class TypedFilter(admin.SimpleListFilter):
    """A value that a person types in."""

    template = "admin/filter_typed.html"
    hint = ""
    input_type = "text"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("", "")]

    def choices(self, changelist: ChangeList) -> Choices:
        others = {name: value for name, value in changelist.get_filters_params().items() if name != self.parameter_name}
        yield {"others": _flat(others), "all": changelist.get_query_string(remove=[str(self.parameter_name)])}

    def typed(self) -> str:
        """The value, no longer than anything it could be equal to."""
        return (self.value() or "").strip()[:TYPED_MAX_CHARS]


class UserFilter(TypedFilter):
    """Whose it is."""

    title = "user"
    parameter_name = "user"
    hint = "whole name"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        return of_user(queryset, self.typed()) if self.typed() else None


class KeyFilter(TypedFilter):
    """Which API key asked."""

    title = "API key"
    parameter_name = "key"
    hint = "sk-… as listed"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        if not self.typed():
            return None
        keys = ApiKey.objects.filter(prefix=self.typed()).values_list("id", flat=True)
        return queryset.filter(api_key_id__in=list(keys[:KEYS_MAX]))


def of_user(rows: QuerySet[Any], username: str) -> QuerySet[Any]:
    """The rows of a user. Who that is, is asked first: joined, the database reads a million rows for an unknown one."""
    user_id = User.objects.filter(username=username).values_list("id", flat=True).first()
    return rows.none() if user_id is None else rows.filter(user_id=user_id)


class WastedFilter(TypedFilter):
    """More tokens wasted than so many."""

    title = "wasted tokens above"
    parameter_name = "wasted_over"
    hint = "tokens"
    input_type = "number"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = (self.value() or "").strip()
        if not value:
            return None
        if not (value.isdecimal() and len(value) < 9):
            return queryset.none()
        wasted: QuerySet[Any] = queryset.alias(wasted=F("generated_tokens") - F("delivered_tokens"))
        return wasted.filter(wasted__gt=int(value))


class TimeFilter(admin.ListFilter):
    """When it was created: the last hours or days, or from one moment to another (UTC)."""

    title = "time"
    template = "admin/filter_time.html"
    parameters = ("since", "until")
    PRESETS = (("last hour", 1), ("last 24 hours", 24), ("last 7 days", 7 * 24), ("last 30 days", 30 * 24))

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any):
        super().__init__(request, params, model, model_admin)
        for name in self.parameters:
            if name in params:
                self.used_parameters[name] = params.pop(name)[-1]

    def expected_parameters(self) -> list[str | None]:
        return list(self.parameters)

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        since, until = (_moment(str(self.used_parameters.get(name, ""))) for name in self.parameters)
        if since:
            queryset = queryset.filter(created_at__gte=since)
        return queryset.filter(created_at__lt=until) if until else queryset

    def choices(self, changelist: ChangeList) -> Choices:
        others = {n: v for n, v in changelist.get_filters_params().items() if n not in self.parameters}
        yield {
            "others": _flat(others),
            "since": self.used_parameters.get("since", ""),
            "until": self.used_parameters.get("until", ""),
            "all": changelist.get_query_string(remove=list(self.parameters)),
            "presets": [
                {
                    "label": label,
                    "link": changelist.get_query_string({"since": f"-{hours}h"}, remove=["until"]),
                    "selected": self.used_parameters.get("since") == f"-{hours}h",
                }
                for label, hours in self.PRESETS
            ],
        }


def _moment(value: str) -> datetime | None:
    """``-24h`` from now, or a moment as a date field writes it; None for anything else."""
    hours = value.removeprefix("-").removesuffix("h")
    if value == f"-{hours}h" and hours.isdecimal() and len(hours) < 6:
        return timezone.now() - timedelta(hours=int(hours))
    try:
        moment = parse_datetime(value)
    except ValueError:
        return None
    return timezone.make_aware(moment) if moment and timezone.is_naive(moment) else moment


def _flat(params: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in params.items() for value in values]
