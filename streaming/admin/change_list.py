"""Owns what the admin makes of addresses that ask for what there cannot be. Filters and shows nothing."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db import DataError
from django.db.models import Model
from django.http import HttpRequest


class LenientChangeList(ChangeList):
    """One whose values are refused only as they are asked for is an address that cannot be read, and no fault of ours.

    Years beyond the calendar's, moments that are there in their own time zone but not in UTC, ranges without an end.
    """

    def get_results(self, request: HttpRequest) -> None:
        try:
            self.read(request)
        except (ValueError, OverflowError, LookupError, DataError) as error:
            raise IncorrectLookupParameters(str(error)) from error

    def read(self, request: HttpRequest) -> None:
        """Ask the database."""
        super().get_results(request)


class Listed(admin.ModelAdmin):  # type: ignore[type-arg]
    """What every table of the admin is."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Model | None:
        """The row of an address; None for what no row can be called: PostgreSQL takes no NUL."""
        return None if "\0" in object_id else super().get_object(request, object_id, from_field or None)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return LenientChangeList
