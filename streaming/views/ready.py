"""Owns readiness: whether a question would be answered now. The proof itself is ownership.probe's."""

from django.http import HttpRequest, JsonResponse

from streaming import ownership


async def readyz(request: HttpRequest) -> JsonResponse:
    """200 when a real generation worked lately, else 503 and why."""
    trouble = await ownership.trouble()
    if trouble:
        return JsonResponse({"status": "not ready", "reason": trouble}, status=503, headers={"Retry-After": "2"})
    return JsonResponse({"status": "ready"})
