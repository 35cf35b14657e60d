"""Owns readiness: whether a question would be answered now. The proof itself is ownership.probe's."""

from django.http import HttpRequest, JsonResponse

from streaming import ownership


async def readyz(request: HttpRequest) -> JsonResponse:
    """200 when a real generation worked lately, else 503 and why."""
    found = await ownership.readiness()
    counts = {"models": found.models, "answering": found.answering}
    if found.trouble:
        body = {"status": "not ready", "reason": found.trouble, **counts}
        return JsonResponse(body, status=503, headers={"Retry-After": "2"})
    return JsonResponse({"status": "ready", **counts})
