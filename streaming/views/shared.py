"""Owns the page behind a shared link: for anybody who has it, without a session. Who may make one, the API decides."""

from asgiref.sync import sync_to_async
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django_vite.core.exceptions import DjangoViteAssetNotFoundError

from streaming.store import shares


async def shared(request: HttpRequest, token: str) -> HttpResponse:
    """Texts of a conversation, read-only. A link that does not work is like one that never was."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
    found = await sync_to_async(shares.read, thread_sensitive=True)(token)
    if found is None:
        raise Http404
    boot = {"shared": {"title": found.title, "turns": found.turns}}
    try:
        response = render(request, "shared.html", {"boot": boot})
    except DjangoViteAssetNotFoundError:
        response = render(request, "unbuilt.html", status=503)
    response.headers["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return response
