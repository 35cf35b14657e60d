"""Owns when a page of one row shows what somebody said: where ADMIN_SHOWS_TEXT is set, to who asks for it, and never
before that is noted. Shows no text itself."""

from typing import Any

from django.conf import settings
from django.db.models import Model
from django.http import HttpRequest

from streaming.audit import note

from .read_only import ReadOnlyAdmin


class TextOnRequest(ReadOnlyAdmin):
    """Rows with text. The look is noted where the row is fetched, and ``shows_text`` is true of no other row."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The row of an id as the database has it: Django's views take it out of the address, where it is quoted."""
        row = super().get_object(request, object_id, from_field)
        match = request.resolver_match
        is_page = match is not None and (match.url_name or "").endswith("_change")
        if row is not None and is_page and "text" in request.GET:
            self.reveal(request, row, "read text")
        return row

    def reveal(self, request: HttpRequest, row: Model, action: str) -> bool:
        """Note a look at what was said in a row; False, and nothing noted, where it may not be seen."""
        if not settings.ADMIN_SHOWS_TEXT or not self.has_view_permission(request, row):
            return False
        note(request, request.user, action, row)
        request.revealed = (type(row), row.pk)  # type: ignore[attr-defined]
        return True


def shows_text(request: HttpRequest, row: Model | None) -> bool:
    """Whether a page shows what was said in a row: the look at it has been noted."""
    return row is not None and getattr(request, "revealed", None) == (type(row), row.pk)
