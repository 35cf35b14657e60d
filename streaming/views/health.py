"""Owns the life sign of the process. Whether it can answer a question is readiness, another route."""

from django.http import HttpRequest, JsonResponse


async def healthz(request: HttpRequest) -> JsonResponse:
    """The event loop turns."""
    return JsonResponse({"status": "ok"})
