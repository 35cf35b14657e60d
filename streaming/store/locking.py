"""Owns locking several rows of a table in the one order in which all do it. Does not know whose turn a table is."""

from typing import Any

from django.db.models import QuerySet


def hold(rows: QuerySet[Any]) -> None:
    """Nobody else changes these until the transaction ends, nor stores what refers to them."""
    list(rows.order_by("pk").select_for_update(of=("self",)).values_list("pk", flat=True))
