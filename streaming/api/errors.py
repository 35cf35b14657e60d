"""Owns the one JSON shape of errors on /v1 and /api and how exceptions become it. Decides no rule itself."""

import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import (
    BadRequest,
    ObjectDoesNotExist,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import RawPostDataException
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError

logger = logging.getLogger(__name__)

STORAGE_RETRY_S = "5"
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
CODES = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
}


class ApiError(Exception):
    """A refusal that the caller is shown, before any stream.

    ``logged_message`` is what may be stored about it: the message without the value the caller sent.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        logged_message: str | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = headers or {}
        self.extra = extra or {}
        self.logged_message = logged_message or message

    def response(self) -> HttpResponse:
        """The JSON answer."""
        return error_response(
            self.status,
            self.message,
            code=self.code,
            param=self.param,
            headers=self.headers,
            extra=self.extra,
        )


def error_body(
    status: int,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """OpenAI's error object; ``type`` follows from the status, and so does ``code`` unless given."""
    fallback = ("server_error", "internal") if status >= 500 else ("invalid_request_error", "invalid_request")
    return {
        "error": {
            "message": message,
            "type": TYPES.get(status, fallback[0]),
            "param": param,
            "code": code or CODES.get(status, fallback[1]),
            **(extra or {}),
        }
    }


def error_response(
    status: int, message: str, *, headers: Mapping[str, str] | None = None, **fields: Any
) -> JsonResponse:
    """The JSON answer for a status and a message; see error_body for the other fields."""
    return JsonResponse(error_body(status, message, **fields), status=status, headers=dict(headers or {}))


def deleted() -> ApiError:
    """404 for what went away while it was asked for."""
    return ApiError(404, "it was deleted", code="not_found")


def body_too_large(request: HttpRequest) -> ApiError:
    """413 with the limit and what was seen of the size."""
    limit = settings.MAX_BODY_BYTES
    seen = request.META.get("CONTENT_LENGTH") or "more"
    return ApiError(413, f"the body is too large: limit {limit} bytes, got {seen}", code="body_too_large")


def install(api: NinjaAPI) -> None:
    """Give an API these handlers in place of django-ninja's, which answer in another shape."""
    api.add_exception_handler(ApiError, noted)
    api.add_exception_handler(HttpError, _on_http_error)
    api.add_exception_handler(AuthenticationError, lambda request, error: error_response(401, "not authenticated"))
    api.add_exception_handler(Http404, lambda request, error: error_response(404, "not found"))
    api.add_exception_handler(PermissionDenied, lambda request, error: error_response(403, "forbidden"))
    # The last: a form in parts where JSON belongs, of which the check for CSRF has read the beginning.
    for malformed in (BadRequest, SuspiciousOperation, MultiPartParserError, RawPostDataException):
        api.add_exception_handler(malformed, lambda request, error: error_response(400, "the request is malformed"))
    api.add_exception_handler(ObjectDoesNotExist, lambda request, error: error_response(404, "it was deleted"))
    for unavailable in (OperationalError, InterfaceError, InternalError):
        api.add_exception_handler(unavailable, _on_storage_trouble)
    api.add_exception_handler(RequestDataTooBig, lambda request, error: body_too_large(request).response())
    api.add_exception_handler(Exception, _on_bug)


def noted(request: HttpRequest, error: Any) -> HttpResponse:
    """The answer; the refusal stays on the request for whoever stores refusals."""
    request.refused = error  # type: ignore[attr-defined]
    response: HttpResponse = error.response()
    return response


def _on_http_error(request: HttpRequest, error: Any) -> HttpResponse:
    # django-ninja wraps whatever a parser raises into its own error; ours is the cause.
    if isinstance(error.__cause__, ApiError):
        return noted(request, error.__cause__)
    return error_response(error.status_code, error.message)


def _on_storage_trouble(request: HttpRequest, error: Any) -> HttpResponse:
    logger.warning("%s %s: the database is not available: %s", request.method, request.path, error)
    return storage_unavailable()


def storage_unavailable() -> JsonResponse:
    """503 while the database refuses, fails or hangs."""
    headers = {"Retry-After": STORAGE_RETRY_S}
    return error_response(503, "the server cannot store anything just now", code="storage", headers=headers)


def _on_bug(request: HttpRequest, error: Any) -> HttpResponse:
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    return error_response(500, "internal error", code="internal")
