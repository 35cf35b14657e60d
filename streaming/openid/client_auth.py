"""Owns how the site shows the token endpoint who it is. Sends nothing.

RFC 6749, section 2.3.1, has id and secret form-encoded before they are a name and a password of HTTP Basic. Some
providers read them so and some as they stand; in the body nobody can read them in two ways.
"""

from collections.abc import Sequence
from urllib.parse import quote_plus

from authlib.oauth2.auth import ClientAuth

from .client import Client

FORM = "application/x-www-form-urlencoded"


def added(client: Client, methods: Sequence[str], body: str) -> tuple[dict[str, str], str]:
    """The headers and the body of a request that had this body; ``methods`` are the provider's."""
    method = _method(client, methods)
    shown = client.client_id, client.client_secret
    if method == "client_secret_basic":
        shown = quote_plus(shown[0]), quote_plus(shown[1])
    _, headers, body = ClientAuth(*shown, method).prepare("POST", "", {"Content-Type": FORM}, body)
    return headers, body


def _method(client: Client, methods: Sequence[str]) -> str:
    if not client.client_secret:
        return "none"
    is_plain = all(quote_plus(part) == part for part in (client.client_id, client.client_secret))
    can_post, can_basic = "client_secret_post" in methods, "client_secret_basic" in methods
    return "client_secret_post" if can_post and not (can_basic and is_plain) else "client_secret_basic"
