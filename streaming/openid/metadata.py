"""Owns what of a provider's own description is believed. Fetches nothing.

OpenID Connect Discovery 1.0, sections 3 and 4.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .client import Away

PATH = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where the provider does what, and how it wants to be shown who asks."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str
    auth_methods: tuple[str, ...]


def address(issuer: str) -> str:
    """Where the description is."""
    return issuer.rstrip("/") + PATH


def read(issuer: str, document: Any) -> Metadata:
    """Raises Away for another one's description, one with parts missing, or addresses less safe than the issuer's."""
    if not isinstance(document, dict):
        raise Away(f"{address(issuer)} is no description of a provider")
    if document.get("issuer") != issuer:
        # Letter by letter: a slash more or less is another issuer.
        raise Away(f"OIDC_ISSUER is {issuer!r}, but the provider calls itself {str(document.get('issuer'))[:300]!r}")
    methods = document.get("token_endpoint_auth_methods_supported")
    return Metadata(
        authorization_endpoint=_endpoint(issuer, document, "authorization_endpoint"),
        token_endpoint=_endpoint(issuer, document, "token_endpoint"),
        jwks_uri=_endpoint(issuer, document, "jwks_uri"),
        userinfo_endpoint=_endpoint(issuer, document, "userinfo_endpoint") if "userinfo_endpoint" in document else "",
        auth_methods=tuple(methods) if isinstance(methods, list) else ("client_secret_basic",),
    )


def _endpoint(issuer: str, document: dict[str, Any], name: str) -> str:
    url = document.get(name)
    schemes = ("https",) if issuer.startswith("https:") else ("https", "http")
    if not isinstance(url, str) or not _is_address(url, schemes):
        raise Away(f"the provider's {name} is {str(url)[:300]!r}, not an address as safe as {issuer!r}")
    return url


def _is_address(url: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket too few, a port that is no number
        return False
