"""Owns finding ports on which nobody listens, for servers that have to be told theirs. Listens on none itself."""

import secrets
import socket
from pathlib import Path

#: The kernel hands ports from the first to the second number to outgoing connections, and to who asks for any port.
KERNELS = Path("/proc/sys/net/ipv4/ip_local_port_range")
KERNELS_DEFAULT = "32768 60999"
#: Below are ports that people choose, and some that browsers refuse.
LOWEST = 11_000


def free_ports(count: int) -> list[int]:
    """So many ports; see `free_port`."""
    return [free_port() for _ in range(count)]


def free_port() -> int:
    """A port on which nobody listens, on any address. Raises OSError where there is none.

    It stays free until somebody who was told it listens: the kernel hands it to nobody, and this function, in whatever
    process, not once more while the process that asked lives.
    """
    candidates = never_handed_out()
    first = secrets.randbelow(len(candidates))
    for port in candidates[first:] + candidates[:first]:
        if _is_unused(port) and _is_mine(port):
            return port
    raise OSError(f"no port from {LOWEST} to 65535 is free")


def never_handed_out() -> list[int]:
    """The ports outside the kernel's range; all, where it leaves none."""
    try:
        first, last = map(int, KERNELS.read_text().split())
    except OSError:
        first, last = map(int, KERNELS_DEFAULT.split())
    every = range(LOWEST, 65_536)
    return [port for port in every if not first <= port <= last] or list(every)


def _is_unused(port: int) -> bool:
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as asking:
        if family == socket.AF_INET6:
            asking.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        return _binds(asking, "", port)


def _is_mine(port: int) -> bool:
    """Whether no other process was given it, which keeps the UDP port of this number for as long as it lives."""
    kept = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if not _binds(kept, "127.0.0.1", port):
        kept.close()
        return False
    kept.detach()
    return True


def _binds(asking: socket.socket, host: str, port: int) -> bool:
    try:
        asking.bind((host, port))
    except OSError:
        return False
    return True
