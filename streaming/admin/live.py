"""Owns the page of what runs now: a table without a script, JSON for where no socket gets through, and the stop."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse

from streaming import ownership
from streaming.audit import note
from streaming.ownership.live import overview
from streaming.ownership.stop import stop
from streaming.store import live, threads

SEE = "streaming.view_response"
STOP = "streaming.stop_response"
AsyncView = Callable[..., Coroutine[Any, Any, HttpResponse]]


def view(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """The page, with what the rows say now."""
    context = {
        **site.each_context(request),
        "title": "Live",
        "live": live.running(),
        "may_stop": request.user.has_perm(STOP),
    }
    return render(request, "admin/chat/live.html", context)


def needs(permission: str) -> Callable[[AsyncView], AsyncView]:
    """An asynchronous view for staff with a permission; 403 for everybody else."""

    def decorate(inner: AsyncView) -> AsyncView:
        @wraps(inner)
        async def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            user: Any = await request.auser()
            if user.pk is None or not await threads.run(live.may, user.pk, permission):
                return JsonResponse({"error": "not allowed"}, status=403)
            return await inner(request, *args, **kwargs)

        return checked

    return decorate


@needs(SEE)
async def rows(request: HttpRequest) -> HttpResponse:
    """What the socket would tell."""
    return JsonResponse(await overview().now())


@needs(STOP)
async def stop_response(request: HttpRequest, response_id: str) -> HttpResponse:
    """Stop somebody's response; answered when its end is stored, with the proof."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    response = await threads.run(live.find, response_id)
    if response is None:
        raise Http404
    user = await request.auser()
    # First: what cannot be noted is not done.
    await threads.write(note, request, user, "stopped", response)
    await stop(ownership.current(), response, "admin")
    ended = await threads.run(live.find, response_id)
    if "text/html" in request.headers.get("Accept", ""):
        # A form's, not the script's.
        return HttpResponseRedirect(reverse("admin:streaming_response_change", args=[quote(response_id)]))
    return JsonResponse(
        {
            "end_state": ended.end_state if ended else None,
            "end_reason": ended.end_reason if ended else "",
            "stop_ms": ended.stop_ms if ended else None,
        }
    )
