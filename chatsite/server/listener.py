"""Owns the listening socket and the options that accepted sockets inherit from it; does not accept."""

import contextlib
import resource
import socket

from chatsite.server.limits import Limits

BACKLOG = 1024
MAX_OPEN_FILES = 1_048_576
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES = 30, 10, 3
# What a slow reader has not taken stays in the log, where it can still be merged, and not in the kernel.
NOT_SENT_BYTES = 64 * 1024


class ListenError(RuntimeError):
    """The address cannot be listened on; the message says which and why."""


def raise_file_limit() -> None:
    """Every stream is an open file: take all that the system grants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet, so that a taken port is known before anything starts."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        raise ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return sock


def adopt(fd: int) -> socket.socket:
    """The TCP socket that a supervisor opened for us."""
    try:
        sock = socket.socket(fileno=fd)
    except OSError as error:
        raise ListenError(f"file descriptor {fd} is not a socket: {error.strerror or error}") from error
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
        raise ListenError(f"file descriptor {fd} is not a TCP socket")
    return sock


def listen(sock: socket.socket, limits: Limits) -> None:
    """Open the door. Accepted sockets inherit these options, which saves system calls per connection."""
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_NODELAY", 1),
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", limits.user_timeout_ms),
        ("TCP_NOTSENT_LOWAT", NOT_SENT_BYTES),
    ):
        if option := getattr(socket, name, None):  # some exist on Linux only
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    try:
        sock.listen(BACKLOG)
    except OSError as error:
        raise ListenError(f"cannot listen on {url_of(sock)}: {error.strerror or error}") from error


def url_of(sock: socket.socket) -> str:
    """Where a browser finds us; names the real port when 0 was asked for."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
