"""Owns the admin's site: its name, and the pages that are no table's. What those show is streaming.admin's."""

from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse


class ChatAdminSite(AdminSite):
    """Django's admin with a dashboard and a page of what runs now."""

    site_header = site_title = "Chat administration"
    index_title = "What happened, and who may do what"

    def get_urls(self) -> list[Any]:
        # Not above: this module is loaded before models are.
        from streaming.admin import pages

        return [*pages.urls(self), *super().get_urls()]

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Where there is a provider the site's own page, which leads to it; who is in and no staff is told so here."""
        if settings.OIDC_ISSUER and not request.user.is_authenticated and request.method == "GET":
            # Not above, as below.
            from django.contrib.auth.views import redirect_to_login

            return redirect_to_login(request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index"))
        return super().login(request, extra_context)

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        from streaming.admin import pages

        return super().index(request, {**pages.warnings(request), **(extra_context or {})})

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        from streaming.admin import pages

        listed: list[Any] = super().get_app_list(request, app_label)
        return listed if app_label else [*pages.menu(request), *listed]
