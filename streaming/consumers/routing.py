"""Owns which path leads to which socket. Who may come in at all is judged in chatsite.sockets."""

from collections.abc import Sequence
from typing import Any

from django.urls import path

from .me import Me

urlpatterns: Sequence[Any] = [path("ws/me/", Me.as_asgi())]
