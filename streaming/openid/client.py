"""Owns what this site is to its provider, and how the provider can fail it. Asks nothing."""

from dataclasses import dataclass


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
