"""Owns the address of this run's page, checked before anything long starts. Other ports: chatsite/free_ports.py."""

import os
import socket
from dataclasses import dataclass

from chatsite.free_ports import free_port
from deploy.setup.console import SetupError
from deploy.setup.places import number

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        """How a browser on this machine reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def page_address() -> Address:
    return claim(os.environ.get("HOST") or DEFAULT_HOST, port())


def port() -> int:
    """Where the person wants the page."""
    return number("PORT", DEFAULT_PORT, 0, 65_535)


def claim(host: str, port: int) -> Address:
    """The address that web will listen on; port 0 takes a free one. Raises when something else listens there."""
    port = port or free_port()
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise SetupError(f"HOST {host!r} is no address of this machine: {error.strerror}") from error
    with socket.socket(family, kind) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(where)
        except OSError as error:
            hint = f"choose another, as PORT={port + 1}"
            raise SetupError(f"port {port} of {host} cannot be used ({error.strerror}): {hint}") from error
    return Address(host, port)
