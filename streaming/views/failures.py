"""Owns the pages for 400, 403, 404, 413 and 500. Touches no session and no database; API paths get JSON above this."""

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

TEXTS = {
    400: ("Bad request", "The server could not understand this request."),
    403: ("Not allowed", "You may not do this. If you just logged in or out in another tab, reload the page."),
    404: ("Not found", "There is nothing at this address."),
    413: ("Too large", "What you sent is larger than the server takes."),
    500: ("Something broke", "The error is ours and was noted. Please try again."),
}


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400."""
    return _failure(request, 413 if isinstance(exception, RequestDataTooBig) else 400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler403."""
    return _failure(request, 403)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW."""
    return _failure(request, 403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404."""
    return _failure(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500."""
    return _failure(request, 500)


def _failure(request: HttpRequest, status: int) -> HttpResponse:
    title, text = TEXTS[status]
    return render(request, "failure.html", {"title": title, "text": text}, status=status)
