"""Owns the shell of the chat page. Everything in it is drawn by the front end."""

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django_vite.core.exceptions import DjangoViteAssetNotFoundError

from streaming import tools


async def shell(request: HttpRequest, conversation_id: str | None = None) -> HttpResponse:
    """The page for a logged-in user. Whose conversation it is, the API decides."""
    user = await sync_to_async(get_user, thread_sensitive=True)(request)
    if not user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    boot = {
        "username": user.get_username(),
        "is_staff": user.is_staff,
        "conversation_id": conversation_id,
        "tools": tools.available(),
    }
    try:
        return render(request, "shell.html", {"boot": boot})
    except DjangoViteAssetNotFoundError:
        return render(request, "unbuilt.html", status=503)
