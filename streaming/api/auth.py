"""Owns who is asking: API keys on /v1, sessions with CSRF on /api, never one for the other. Stores nothing itself."""

from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.security.base import AuthBase
from ninja.utils import check_csrf

from streaming.models import ApiKey
from streaming.ownership.guards import Credential
from streaming.store import access, task_tokens, threads
from streaming.store.access import FoundKey

from . import refusals, scopes
from .errors import ApiError

REFUSALS = {
    "key_expired": "this API key has expired",
    "key_revoked": "this API key was revoked",
}

_redeem = sync_to_async(threads.repeatable(task_tokens.redeem), thread_sensitive=True)
_find_key = sync_to_async(threads.repeatable(access.find_key), thread_sensitive=True)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request is from. ``api_key`` is None for a session; a task of ours has a ``purpose``, a batch's both."""

    user: User
    api_key: ApiKey | None
    purpose: str | None = None

    @property
    def api_key_id(self) -> int | None:
        return self.api_key.pk if self.api_key else None


def caller(request: HttpRequest) -> Caller:
    """Who django-ninja found the request to be from, through one of the two classes below."""
    found: Caller = request.auth  # type: ignore[attr-defined]
    return found


def credential(request: HttpRequest) -> Credential:
    """What the caller was let in with."""
    api_key_id = caller(request).api_key_id
    if caller(request).purpose is not None and api_key_id is None:
        return Credential(is_task=True)
    return Credential(api_key_id, None if api_key_id is not None else request.session.session_key)


class BearerAuth(AuthBase):
    """``Authorization: Bearer sk-…``, or ``x-api-key`` as Anthropic's clients do. The only place that reads keys."""

    openapi_type = "http"
    openapi_scheme = "bearer"

    async def __call__(self, request: HttpRequest) -> Caller:
        key = _bearer(request.META.get("HTTP_AUTHORIZATION", ""))
        if key is None:
            key = request.META.get("HTTP_X_API_KEY")
        if key is None:
            raise _unauthorized("send your API key as Authorization: Bearer sk-…", "missing_api_key")
        if key.startswith(task_tokens.PREFIX):
            return await _task(request, key)
        found = await _find_key(key)
        if found is None:
            raise _unauthorized("this API key is not valid", "invalid_api_key")
        if refused := _refusal(request, found):
            await refusals.record_key(request, found.api_key, refused)
            raise refused
        return Caller(found.api_key.user, found.api_key)


def _refusal(request: HttpRequest, found: FoundKey) -> ApiError | None:
    if found.state != "valid":
        return _unauthorized(REFUSALS[found.state], found.state)
    return scopes.lacking(found.api_key, request.method or "", request.path)


async def _task(request: HttpRequest, token: str) -> Caller:
    granted = await _redeem(token, request.path)
    if granted is None:
        raise _unauthorized("this token is not valid here", "invalid_api_key")
    if granted.key is None:
        return Caller(granted.user, None, granted.purpose)
    if refused := _refusal(request, granted.key):
        raise refused
    return Caller(granted.user, granted.key.api_key, granted.purpose)


class SessionAuth(AuthBase):
    """A session of the page, with a CSRF token for everything that changes something."""

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = "sessionid"

    async def __call__(self, request: HttpRequest) -> Caller:
        if _bearer(request.META.get("HTTP_AUTHORIZATION", "")) is not None:
            raise ApiError(401, "API keys are for /v1; this path takes a session", code="login_required")
        user = await sync_to_async(get_user, thread_sensitive=True)(request)
        if not isinstance(user, User):
            raise ApiError(401, "log in first", code="login_required")
        if check_csrf(request) is not None:
            raise ApiError(403, "the CSRF token is missing or wrong; reload the page", code="csrf_failed")
        return Caller(user, None)


def _bearer(header: str) -> str | None:
    scheme, _, key = header.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _unauthorized(message: str, code: str) -> ApiError:
    return ApiError(401, message, code=code, headers={"WWW-Authenticate": "Bearer"})
