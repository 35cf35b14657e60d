"""Owns what a page that only shows has in common. Shows no table itself."""

from typing import Any

from django.db.models import Model
from django.http import HttpRequest

from .change_list import Listed

#: What Django's own filters put behind a field's name.
FILTER_LOOKUPS = frozenset({"", "exact", "gte", "lt", "isempty", "isnull", "id__exact"})


class OfferedLookups(Listed):
    """A list is filtered only by what its filters offer.

    Django lets an address filter by any field of the table: ``?output_text__startswith=`` would tell, letter by
    letter, what the page does not show.
    """

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        name, _, kind = lookup.partition("__")
        return name in self._filtered_fields(request) and kind in FILTER_LOOKUPS

    def _filtered_fields(self, request: HttpRequest) -> set[str]:
        names: set[str] = set()
        for entry in self.get_list_filter(request):
            if isinstance(entry, type):
                # A class of ours: it takes its parameters out before a field is looked for.
                names |= set(getattr(entry, "parameters", ())) | {getattr(entry, "parameter_name", None) or ""}
            else:
                names.add(str(entry[0] if isinstance(entry, tuple | list) else entry))
        return names


class ReadOnlyAdmin(OfferedLookups):
    """Rows that the product writes: no adding, no changing, no deleting by hand."""

    actions: Any = None
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | Any | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | Any | None = None) -> bool:
        return False
