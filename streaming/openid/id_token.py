"""Owns whether an ID token proves who somebody is. Fetches no key; the time comes from the machine's clock.

OpenID Connect Core 1.0, section 3.1.3.7. The signature is joserfc's to check, most claims are Authlib's.
"""

from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError

from .client import Client, Refused
from .signing_keys import Keys, proven

#: How far the provider's clock and this one may differ.
LEEWAY_S = 30
SUBJECT_CHARS_MAX = 255


def claims_of(token: Any, keys: Keys, client: Client, nonce: str, access_token: str) -> dict[str, Any]:
    """What the token says, if all of it holds. Raises UnknownKey, or Refused with what does not hold."""
    if not isinstance(token, str):
        raise Refused("no ID token")
    options = {
        "iss": {"essential": True, "value": client.issuer},
        "aud": {"essential": True, "value": client.client_id},
    }
    params = {"nonce": nonce, "client_id": client.client_id, "access_token": access_token}
    try:
        read = proven(token, keys)
        claims = CodeIDToken(read.claims, read.header, options, params)
        claims.validate(leeway=LEEWAY_S)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Refused(f"ID token: {type(error).__name__}: {error}"[:300]) from None
    subject = claims["sub"]
    if not 1 <= len(subject) <= SUBJECT_CHARS_MAX or not subject.isprintable():
        raise Refused(f"ID token: the subject has {len(subject)} characters, or some that cannot be shown")
    return dict(claims)
