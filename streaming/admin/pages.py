"""Owns which pages the admin has beside its tables: their addresses and who finds them in the menu. Draws none."""

from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import reverse

PERMISSION = "streaming.view_response"


@dataclass(frozen=True, slots=True)
class Page:
    """A line of the menu."""

    title: str
    name: str
    says: str

    @property
    def link(self) -> str:
        """Where it is."""
        return reverse(f"admin:{self.name}")


PAGES: tuple[Page, ...] = ()


def of(request: HttpRequest) -> list[Page]:
    """The pages that whoever asks may see."""
    user: Any = getattr(request, "user", None)
    return list(PAGES) if user and user.is_active and user.is_staff and user.has_perm(PERMISSION) else []


def urls(site: AdminSite) -> list[Any]:
    """Their routes, for the site's."""
    return []
