"""Owns the order in which a serving process is put together; does not parse arguments."""

import socket

from chatsite.server.lifecycle import Lifecycle
from chatsite.server.limits import Limits
from chatsite.server.listener import raise_file_limit
from chatsite.server.loop import prepare_loop
from chatsite.server.server import Application, Server
from chatsite.server.versions import check_versions


def serve(application: Application, sock: socket.socket, limits: Limits) -> int:
    """Serve an ASGI application on a bound socket until told to stop; returns the exit code."""
    check_versions()
    raise_file_limit()
    prepare_loop()
    return Lifecycle(Server(application, limits), sock, limits).run()
