"""Owns lists of a million rows: pages by the last row of the one before, never by number, and nothing is counted."""

from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.db import connection
from django.db.models import Model, Q
from django.http import HttpRequest

from .change_list import LenientChangeList

BEFORE = "before"


class KeysetChangeList(LenientChangeList):
    """Newest first by ``created_at``, or by the page's ``keyset_field``.

    ``older`` is the last row's id where there are more, ``total`` about how many there are in all.

    Counting a million rows, or skipping half of them, takes the database seconds; reading on from a row an index.
    """

    is_keyset = True
    before: str
    older: str | None
    total: int | None

    def get_filters_params(self, params: Any = None) -> Any:
        filters = super().get_filters_params(params)
        self.before = (filters.pop(BEFORE, None) or [""])[-1]
        return filters

    def read(self, request: HttpRequest) -> None:
        rows = self.queryset
        if self.before:
            rows = rows.filter(self._older_than(self.before))
        page = list(rows[: self.list_per_page + 1])
        self.result_list = page[: self.list_per_page]
        self.older = str(self.result_list[-1].pk) if len(page) > self.list_per_page else None
        is_all = not (self.has_active_filters or self.query)
        self.total = _about(self.model) if is_all else None
        self.result_count = self.full_result_count = len(self.result_list)
        self.show_full_result_count = self.can_show_all = self.multi_page = False
        self.show_admin_actions = bool(self.result_list)

    def _older_than(self, pk: str) -> Q:
        field = getattr(self.model_admin, "keyset_field", "created_at")
        try:
            at = self.model._default_manager.filter(pk=pk).values_list(field, flat=True).first()
        except ValueError:
            at = None
        if at is None:
            raise IncorrectLookupParameters(f"there is no row {pk[:60]}")
        # The first half is what an index is walked by.
        return Q((f"{field}__lte", at)) & (Q((f"{field}__lt", at)) | Q(pk__lt=pk))

    def older_link(self) -> str:
        """The address of the next page."""
        return self.get_query_string({BEFORE: self.older})

    def newest_link(self) -> str:
        """The address of the first page."""
        return self.get_query_string()


def _about(model: type[Model]) -> int | None:
    """How many rows a table has, as the database last estimated it; None where it has not."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [table])
        else:
            cursor.execute(f"SELECT MAX(rowid) FROM {connection.ops.quote_name(table)}")  # noqa: S608
        (count,) = cursor.fetchone()
    return count if count and count > 0 else None
