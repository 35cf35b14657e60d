"""Owns the admin's site: its name, and the pages that are no table's. What those show is streaming.admin's."""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse


class ChatAdminSite(AdminSite):
    """Django's admin with a dashboard and a page of what runs now."""

    site_header = site_title = "Chat administration"
    index_title = "What happened, and who may do what"

    def get_urls(self) -> list[Any]:
        # Not above: this module is loaded before models are.
        from streaming.admin import pages

        return [*pages.urls(self), *super().get_urls()]

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        from streaming.admin import pages

        return super().index(request, {**pages.warnings(request), **(extra_context or {})})

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        from streaming.admin import pages

        listed: list[Any] = super().get_app_list(request, app_label)
        return listed if app_label else [*pages.menu(request), *listed]
