"""Owns which path leads to which socket. Who may come in at all is judged in chatsite.sockets."""

from collections.abc import Sequence
from typing import Any

from django.urls import path

from .live import Live
from .me import Me

urlpatterns: Sequence[Any] = [path("ws/me/", Me.as_asgi()), path("ws/admin/live/", Live.as_asgi())]
