"""Owns the files of usage figures that staff takes away: one row for each day and value of a group. Draws nothing."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from .usage_figures import GROUPS, NAMES, Figures, names_of, span_of

#: With these a spreadsheet takes a cell for a formula, and runs what a model's or a user's name says.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def view(request: HttpRequest, kind: str) -> HttpResponse:
    """A file of the kind ``csv`` or ``json``; the same address arguments as the dashboard."""
    group = request.GET.get("group", "end_state")
    if group not in GROUPS or kind not in ("csv", "json"):
        raise Http404
    span = span_of(request.GET)
    rows = list(_rows(Figures(span), group))
    name = f"usage-{span.first}-{span.last}-by-{group}.{kind}"
    if kind == "json":
        answer: HttpResponse = JsonResponse({"since": str(span.first), "until": str(span.last), "rows": rows})
    else:
        answer = HttpResponse(_csv(rows, group), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def _rows(figures: Figures, group: str) -> Iterator[dict[str, Any]]:
    days = figures.by_day(group)
    names = names_of(group, list({value for day in days.values() for value in day}))
    for day, values in days.items():
        for value, sums in sorted(values.items(), key=lambda item: names[item[0]]):
            yield {"day": str(day), group: names[value], **{name: getattr(sums, name) for name in NAMES}}


def _csv(rows: list[dict[str, Any]], group: str) -> str:
    text = io.StringIO()
    # A spreadsheet wants to be told that this is UTF-8.
    text.write("\N{ZERO WIDTH NO-BREAK SPACE}")
    writer = csv.writer(text)
    writer.writerow(["day", group, *NAMES])
    writer.writerows([cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
