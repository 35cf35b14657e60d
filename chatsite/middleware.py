"""Owns what happens around every view: headers, JSON errors, and Django's page middleware kept off the API's path.

Nothing here hops to a thread unless a row has to be written: a request that streams must not cost one.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.decorators import async_only_middleware

from chatsite import csp
from streaming.api.errors import body_too_large, error_response, storage_unavailable
from streaming.metrics.refusing import REFUSED

GetResponse = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

API_PREFIX = "/v1/"
JSON_PREFIXES = (API_PREFIX, "/api/")
HEALTH = "/healthz"
METRICS = "/metrics"
PROBES = (HEALTH, "/readyz", METRICS)
NO_SESSION = (API_PREFIX, *PROBES)
KEPT_HEADERS = ("Allow", "Retry-After", "WWW-Authenticate")
PERMISSIONS = "camera=(), microphone=(), geolocation=(), payment=(), usb=()"


@async_only_middleware
def security_headers(get_response: GetResponse) -> GetResponse:
    """Headers that every answer carries, and a content security policy on every page."""

    async def middleware(request: HttpRequest) -> HttpResponseBase:
        request.csp_nonce = secrets.token_urlsafe(16)  # type: ignore[attr-defined]
        response = _to_https(request) or _refuse_nul(request) or await get_response(request)
        headers = response.headers
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        # Static files do not pass here: what Django answers is somebody's and may not be kept.
        headers.setdefault("Cache-Control", "no-store")
        if settings.SECURE_HSTS_SECONDS and request.is_secure():
            headers["Strict-Transport-Security"] = f"max-age={settings.SECURE_HSTS_SECONDS}"
        if not request.path.startswith(API_PREFIX) or _is_page(response):
            _page_headers(request, response)
        if isinstance(response, HttpResponse):
            # For what Common does not see. A handover drops it again.
            headers.setdefault("Content-Length", str(len(response.content)))
        return response

    return middleware


def _is_page(response: HttpResponseBase) -> bool:
    return bool(response.headers.get("Content-Type", "").startswith("text/html"))


def _to_https(request: HttpRequest) -> HttpResponseBase | None:
    if not settings.SECURE_SSL_REDIRECT or request.is_secure() or request.path in PROBES:
        return None
    try:
        return HttpResponsePermanentRedirect(f"https://{request.get_host()}{request.get_full_path()}")
    except DisallowedHost:
        return HttpResponseBadRequest("this host name is not served here", content_type="text/plain")


def _refuse_nul(request: HttpRequest) -> HttpResponseBase | None:
    """A page's filters ask the database as they were written: PostgreSQL takes no NUL in a question, SQLite does."""
    if "%00" not in request.META.get("QUERY_STRING", "") or request.path.startswith(JSON_PREFIXES):
        return None
    return HttpResponseBadRequest("NUL is not allowed in a query", content_type="text/plain")


def _page_headers(request: HttpRequest, response: HttpResponseBase) -> None:
    headers = response.headers
    headers["Referrer-Policy"] = settings.SECURE_REFERRER_POLICY
    headers["Cross-Origin-Opener-Policy"] = settings.SECURE_CROSS_ORIGIN_OPENER_POLICY
    headers["X-Frame-Options"] = settings.X_FRAME_OPTIONS
    headers["X-DNS-Prefetch-Control"] = "off"
    headers["Permissions-Policy"] = PERMISSIONS
    if _is_page(response):
        headers["Content-Security-Policy"] = csp.policy(request.path, request.csp_nonce)  # type: ignore[attr-defined]


@async_only_middleware
def json_errors(get_response: GetResponse) -> GetResponse:
    """Under /v1 and /api no error is a page, whoever made it."""

    async def middleware(request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith(JSON_PREFIXES):
            return await get_response(request)
        response = await answered(request)
        # What a task of ours is told to ask later turns nobody away.
        if response.status_code >= 400 and getattr(getattr(request, "auth", None), "purpose", None) is None:
            refused = getattr(request, "refused", None)
            REFUSED.labels(response.status_code, refused.code if refused else "").inc()
        return response

    async def answered(request: HttpRequest) -> HttpResponseBase:
        try:
            request.get_host()
        except DisallowedHost:
            return error_response(400, "this host name is not served here", code="invalid_host")
        try:
            # No view waits for an answer's text: who takes so long hangs on a database that says nothing.
            async with asyncio.timeout(settings.REQUEST_TIMEOUT_S):
                response = await get_response(request)
        except TimeoutError:
            return storage_unavailable()
        if response.status_code < 400 or response.headers.get("Content-Type", "").startswith("application/json"):
            return response
        return _as_json(request, response)

    return middleware


def _as_json(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    kept = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    if response.status_code == 413:
        return body_too_large(request).response()
    message = response.reason_phrase.lower()
    if response.status_code == 405:
        message = f"{request.method} is not allowed here, only {kept.get('Allow', 'other methods')}"
    elif response.status_code == 404:
        message = f"there is no {re.sub('[^!-~]', '?', request.path[:200])}"
    return error_response(response.status_code, message, headers=kept)


class PagesOnly:
    """Before one of Django's own middleware classes: skips it where there is no session, and hops to a
    thread after the view only where ``must_write`` says that a row has to be written."""

    get_response: Callable[[HttpRequest], Any]
    async_mode: bool

    def __call__(self, request: HttpRequest) -> Any:
        if not self.applies(request.path):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]

    def applies(self, path: str) -> bool:
        """Whether it runs for a path at all."""
        return not path.startswith(NO_SESSION)

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        before = getattr(self, "process_request", None)
        after = getattr(self, "process_response", None)
        response: HttpResponseBase = (before(request) if before else None) or await self.get_response(request)
        if after is not None and self.must_write(request):
            response = await sync_to_async(after, thread_sensitive=True)(request, response)
        elif after is not None:
            response = after(request, response)
        return response

    def must_write(self, request: HttpRequest) -> bool:
        """Whether what comes after the view touches the database."""
        return False


class Session(PagesOnly, SessionMiddleware):
    """Sessions, loaded when first asked for."""

    def must_write(self, request: HttpRequest) -> bool:
        session = getattr(request, "session", None)
        return session is not None and (session.modified or settings.SESSION_SAVE_EVERY_REQUEST)


class Common(PagesOnly, CommonMiddleware):
    """Host check, trailing slash, Content-Length."""


class Csrf(PagesOnly, CsrfViewMiddleware):
    """CSRF tokens of pages and forms. The page API checks them itself, after it knows the session."""

    def __init__(self, get_response: Callable[[HttpRequest], Any]):
        super().__init__(get_response)
        if self.async_mode:
            # Django would send a synchronous process_view to a thread for every request.
            self.process_view: Any = self.aprocess_view

    async def aprocess_view(self, request: HttpRequest, *view: Any) -> HttpResponseBase | None:
        """The check without a hop: it reads cookies, headers and a body that is already here."""
        if not self.applies(request.path):
            return None
        return super().process_view(request, *view)

    def has_own_origin(self, request: HttpRequest) -> bool:
        """Whether the request's Origin is the site's own, or one of CSRF_TRUSTED_ORIGINS."""
        return bool(self._origin_verified(request))  # type: ignore[attr-defined]  # not in the stubs


class Authentication(PagesOnly, AuthenticationMiddleware):
    """``request.user``, loaded when first asked for."""


class Messages(PagesOnly, MessageMiddleware):
    """One-time notes, which only the admin uses."""

    def applies(self, path: str) -> bool:
        return path.startswith(csp.ADMIN_PREFIX)

    def must_write(self, request: HttpRequest) -> bool:
        messages = getattr(request, "_messages", None)
        return messages is not None and (messages.used or messages.added_new)
