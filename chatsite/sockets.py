"""Owns who may open a WebSocket at all: host, origin, session; and which application gets it. Says nothing on one."""

import logging
from io import BytesIO
from typing import Any

from channels.routing import URLRouter
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, re_path

from chatsite.handover import Application, Receive, Scope, Send
from chatsite.middleware import Csrf
from streaming.consumers.routing import urlpatterns
from streaming.store import sessions, threads

logger = logging.getLogger(__name__)

AWAY = 1013


class SocketDoor:
    """Before every WebSocket. Applications find ``scope["user"]``, None without a session, and ``session_key``.

    A page of another origin is refused even if its host is ours: cookies know no ports, and a WebSocket no CSRF token.
    """

    def __init__(self) -> None:
        self._route: Application = URLRouter([*urlpatterns, re_path(r"", _nowhere)])
        self._csrf = Csrf(_unused)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = ASGIRequest({**scope, "type": "http", "method": "GET"}, BytesIO())
        if not self._is_ours(request):
            await refuse(scope, receive, send)
            return
        session_key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
        try:
            users = await threads.run(sessions.users_of, [session_key]) if session_key else {}
        except DatabaseError as error:
            logger.warning("a socket's session could not be looked up: %s", error)
            await come_later(send)
            return
        user = users.get(session_key) if session_key else None
        await self._route({**scope, "user": user, "session_key": session_key}, receive, send)

    def _is_ours(self, request: HttpRequest) -> bool:
        try:
            request.get_host()
            return "HTTP_ORIGIN" in request.META and self._csrf.has_own_origin(request)
        except DisallowedHost:
            return False


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """403 instead of a WebSocket."""
    await send({"type": "websocket.close"})


async def come_later(send: Send) -> None:
    """A browser sees a reason only on a socket that was opened."""
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": AWAY, "reason": "try again later"})


#: Django's types know views only.
_nowhere: Any = refuse


async def _unused(request: HttpRequest) -> HttpResponse:
    raise Resolver404
