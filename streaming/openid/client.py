"""Owns what this site is to its provider, and how the provider can fail it. Asks nothing."""

from dataclasses import dataclass

#: RFC 6749, sections 4.1.2.1 and 5.2: the provider does not know the site, or not by this secret, or does not have what
#: it is asked for; or it has a fault of its own. Nothing of this is the person's doing.
NO_PERSONS_FAULT = frozenset(
    {
        "invalid_client", "unauthorized_client", "invalid_scope", "unsupported_grant_type", "unsupported_response_type",
        "server_error", "temporarily_unavailable",
    }
)  # fmt: skip


class Away(Exception):
    """The provider cannot be reached, takes too long, or says what is no OpenID Connect. Later it may be better."""


class Refused(Exception):
    """The provider, or the proof that it gave, lets this person not in. The words are for the log."""


@dataclass(frozen=True, slots=True)
class Client:
    """The site as the provider knows it; ``timeout_s`` is of one request to it, all told."""

    issuer: str
    client_id: str
    client_secret: str = ""
    scopes: tuple[str, ...] = ("openid",)
    ca_file: str = ""
    timeout_s: float = 5.0
