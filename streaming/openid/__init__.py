"""Talks to the one OpenID provider of the site and judges what it says of a person. Knows no request and no row.

The pieces of the protocol are Authlib's and joserfc's. Their client for Django is not used: it asks with ``requests``,
which would take one of the few shared threads for as long as the provider likes, keeps each attempt in a session row
that anybody could have written, and believes the issuer and the algorithms that the provider's own document names.
"""

from .client import NO_PERSONS_FAULT, Away, Client, Refused
from .provider import Attempt, Person, Provider

__all__ = ["NO_PERSONS_FAULT", "Attempt", "Away", "Client", "Person", "Provider", "Refused"]
