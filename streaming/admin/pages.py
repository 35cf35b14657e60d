"""Owns which pages the admin has beside its tables: their addresses, who may see them, the menu. Draws none."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse

from streaming.store import ledger

from . import dashboard, exports, live

#: Whoever may see responses may see figures of them.
PERMISSION = "streaming.view_response"


@dataclass(frozen=True, slots=True)
class Page:
    """A line of the menu."""

    title: str
    name: str

    @property
    def link(self) -> str:
        """Where it is."""
        return reverse(f"admin:{self.name}")


PAGES = (Page("Live", "chat_live"), Page("Usage", "chat_usage"))


def menu(request: HttpRequest) -> list[dict[str, Any]]:
    """The pages that whoever asks may see, as Django's menu takes tables of an app."""
    user: Any = request.user
    if not user.has_perm(PERMISSION):
        return []
    lines = [
        {"name": page.title, "object_name": page.name, "admin_url": page.link, "add_url": None, "view_only": True}
        for page in PAGES
    ]
    first = PAGES[0].link
    return [{"name": "Overview", "app_label": "overview", "app_url": first, "has_module_perms": True, "models": lines}]


def warnings(request: HttpRequest) -> dict[str, Any]:
    """What the first page warns of whoever may look into it: books that do not agree."""
    user: Any = request.user
    return {"drifts": ledger.drifts()} if user.has_perm("streaming.view_ledgercheck") else {}


def urls(site: AdminSite) -> list[Any]:
    """Their routes, for the site's."""

    def guarded(view: Callable[..., HttpResponse]) -> Any:
        def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.has_perm(PERMISSION):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        return site.admin_view(inner)

    return [
        path("live/", guarded(lambda request: live.view(site, request)), name="chat_live"),
        path("live/rows/", live.rows, name="chat_live_rows"),
        path("live/<str:response_id>/stop/", live.stop_response, name="chat_live_stop"),
        path("usage/", guarded(lambda request: dashboard.view(site, request)), name="chat_usage"),
        path("usage/export.<str:kind>", guarded(exports.view), name="chat_usage_export"),
    ]
