"""Owns which settings of OpenID Connect make sense together. Talks to no provider."""

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

#: off: who has no account gets none. open: everybody whom the provider knows. domains: by a confirmed e-mail address.
ACCOUNTS = ("off", "open", "domains")
ISSUER_CHARS_MAX = 300


def check(issuer: str, client: Sequence[str], scopes: Sequence[str], accounts: str, domains: Sequence[str]) -> None:
    """Raises ImproperlyConfigured, naming the setting, for what could not work or is not as safe as it looks.

    ``client`` is the client's id and secret.
    """
    if not issuer:
        return
    parts = urlsplit(issuer)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ImproperlyConfigured(f"OIDC_ISSUER must be an https:// address (http:// on this machine), not {issuer!r}")
    if not parts.hostname or parts.query or parts.fragment or parts.username or len(issuer) > ISSUER_CHARS_MAX:
        raise ImproperlyConfigured(f"OIDC_ISSUER must be a scheme, a host and a path, not {issuer[:400]!r}")
    if not client[0]:
        raise ImproperlyConfigured("OIDC_CLIENT_ID must be set where OIDC_ISSUER is")
    if not all(part.isascii() and part.isprintable() for part in client):
        raise ImproperlyConfigured("OIDC_CLIENT_ID and OIDC_CLIENT_SECRET must be of printable ASCII characters")
    if "openid" not in scopes:
        raise ImproperlyConfigured(f"OIDC_SCOPES must name openid, not {' '.join(scopes)!r}")
    if accounts not in ACCOUNTS:
        raise ImproperlyConfigured(f"OIDC_ACCOUNTS must be {', '.join(ACCOUNTS)}, not {accounts!r}")
    if (accounts == "domains") != bool(domains):
        raise ImproperlyConfigured("OIDC_DOMAINS and OIDC_ACCOUNTS=domains need each other")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name, whatever a resolver says of others."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
