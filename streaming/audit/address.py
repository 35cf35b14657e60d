"""Owns where a request came from, for whoever notes or limits it. Refuses nothing."""

from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

#: Whoever has one address of IPv6 has at least so many bits of them.
NETWORK_BITS = 64


def client_address(request: HttpRequest) -> str:
    """The address: what the proxy says of it, where there is one that can be believed. Empty if nobody knows."""
    said: str = request.META.get("REMOTE_ADDR") or ""
    if settings.SECURE_PROXY_SSL_HEADER:
        said = request.headers.get("X-Forwarded-For", "").split(",")[-1].strip() or said
    try:
        return str(ip_address(said))
    except ValueError:
        return ""


def limited_address(request: HttpRequest) -> str | None:
    """What stands for the client where tries are counted: its address, of IPv6 its network; None if nobody knows."""
    said = client_address(request)
    if not said:
        return None
    address = ip_address(said)
    if not isinstance(address, IPv6Address):
        return said
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, NETWORK_BITS), strict=False).network_address)
