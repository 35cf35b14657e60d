"""Owns how tests talk over a WebSocket: a real client, with a session's cookie or without. Knows no test."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.e2e.site import Site

WAIT_S = 60.0


def talk(site: Site, page: httpx.Client | None = None, *, origin: str | None = "", path: str = "/ws/me/", **options):
    """An open socket of a page; ``origin`` is the site's own unless given, None leaves it out."""
    headers = {}
    if page is not None:
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in page.cookies.items())
    return connect(
        f"ws://127.0.0.1:{site.port}{path}",
        origin=site.url if origin == "" else origin,
        additional_headers=headers,
        open_timeout=WAIT_S,
        **options,
    )


def said(socket: ClientConnection, want: Callable[[dict[str, Any]], bool] | str, timeout_s: float = WAIT_S) -> dict:
    """Read until a message is wanted, by its type or by a predicate; returns it."""
    while True:
        message = json.loads(socket.recv(timeout_s))
        if message["type"] == want if isinstance(want, str) else want(message):
            return message


def closing(socket: ClientConnection) -> tuple[int, str]:
    """Read until the other side closes; its code and reason."""
    with pytest.raises(ConnectionClosed) as closed:
        _read_on(socket)
    assert closed.value.rcvd is not None, "it closed without a word"
    return closed.value.rcvd.code, closed.value.rcvd.reason


def _read_on(socket: ClientConnection) -> None:
    while True:
        socket.recv(WAIT_S)
