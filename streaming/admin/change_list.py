"""Owns the lists of the admin where an address asks for what no calendar and no number has. Filters nothing."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest


class LenientChangeList(ChangeList):
    """One whose values only the database driver refuses is an address that cannot be read, and no fault of ours.

    Years beyond the calendar's, and moments that are there in their own time zone but not in UTC.
    """

    def get_results(self, request: HttpRequest) -> None:
        try:
            self.read(request)
        except (ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(str(error)) from error

    def read(self, request: HttpRequest) -> None:
        """Ask the database."""
        super().get_results(request)


class Listed(admin.ModelAdmin):  # type: ignore[type-arg]
    """What every table of the admin is."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return LenientChangeList
