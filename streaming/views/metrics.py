"""Owns who may read what this process counts, and the answer. The figures are those of metrics and of ownership."""

import hmac

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from streaming import ownership
from streaming.metrics.registry import CONTENT_TYPE


async def metrics(request: HttpRequest) -> HttpResponse:
    """For who shows METRICS_TOKEN; where there is none, for nobody.

    Not for this machine's programs without one: a proxy that runs here looks like one of them, whoever asks it.
    """
    if not settings.METRICS_TOKEN:
        return HttpResponse(b"METRICS_TOKEN is not set\n", status=404, content_type="text/plain")
    if not _has_token(request):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"}, content_type="text/plain")
    return HttpResponse(await ownership.metrics(), content_type=CONTENT_TYPE)


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())
