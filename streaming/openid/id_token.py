"""Owns whether an ID token proves who somebody is. Fetches no key; the time comes from the machine's clock.

OpenID Connect Core 1.0, section 3.1.3.7. The signature is joserfc's to check, most claims are Authlib's.
"""

from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import ECKey, KeySet, RSAKey
from joserfc.jws import JWSRegistry

from .client import Away, Client, Refused

#: Whatever a provider offers: never "none", never a secret that both sides know.
ALGORITHMS = ("RS256", "ES256")
#: How far the provider's clock and this one may differ.
LEEWAY_S = 30
RSA_BITS_MIN = 2048
SUBJECT_CHARS_MAX = 255
_REGISTRY = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)


class UnknownKey(Exception):
    """Signed by a key that is not in the set: the provider may have changed its keys."""


def key_set(document: Any) -> KeySet:
    """The keys that may sign, of a provider's JWK set; others are left out. Raises Away if none is left."""
    listed = document.get("keys") if isinstance(document, dict) else None
    found = [_key(each) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    keys = [key for key in found if key is not None]
    if not keys:
        raise Away("the provider has no key for RS256 or ES256")
    return KeySet(list(keys))


def _key(document: dict[str, Any]) -> RSAKey | ECKey | None:
    if document.get("use", "sig") != "sig" or document.get("alg", "RS256") not in ALGORITHMS:
        return None
    try:
        if document.get("kty") == "RSA":
            rsa = RSAKey.import_key(document)
            return rsa if rsa.public_key.key_size >= RSA_BITS_MIN else None
        if document.get("kty") == "EC" and document.get("crv") == "P-256":
            return ECKey.import_key(document)
    except (JoseError, ValueError, TypeError, KeyError):
        pass
    return None


def claims_of(token: Any, keys: KeySet, client: Client, nonce: str, access_token: str) -> dict[str, Any]:
    """What the token says, if all of it holds. Raises UnknownKey, or Refused with what does not hold."""
    if not isinstance(token, str):
        raise Refused("no ID token")
    options = {
        "iss": {"essential": True, "value": client.issuer},
        "aud": {"essential": True, "value": client.client_id},
    }
    params = {"nonce": nonce, "client_id": client.client_id, "access_token": access_token}
    try:
        read = jwt.decode(token, keys, registry=_REGISTRY)
        claims = CodeIDToken(read.claims, read.header, options, params)
        claims.validate(leeway=LEEWAY_S)
    except InvalidKeyIdError:
        raise UnknownKey from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise Refused(f"ID token: {type(error).__name__}: {error}"[:300]) from None
    subject = claims["sub"]
    if not 1 <= len(subject) <= SUBJECT_CHARS_MAX or not subject.isprintable():
        raise Refused(f"ID token: the subject has {len(subject)} characters, or some that cannot be shown")
    return dict(claims)
