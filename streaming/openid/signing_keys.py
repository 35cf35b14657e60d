"""Owns the keys that a provider signs with: which of its documents are keys, and whose token they prove. Fetches none.

Core 1.0, section 10.1, wants a token to name its key where there are several; not every provider does, and some have
keys without a name. Then each that fits is tried: all of them are the provider's.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import ECKey, RSAKey

from .client import Away

#: Whatever a provider offers: never "none", never a secret that both sides know.
ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}
RSA_BITS_MIN = 2048
_REGISTRY = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)

Keys = Sequence[RSAKey | ECKey]


class UnknownKey(Exception):
    """Signed by a key that is not among them: the provider may have changed its keys."""


def read(document: Any) -> Keys:
    """The keys that may sign, of a provider's JWK set; others are left out. Raises Away if none is left."""
    listed = document.get("keys") if isinstance(document, dict) else None
    found = [_key(each) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    keys = [key for key in found if key is not None]
    if not keys:
        raise Away("the provider has no key for RS256 or ES256")
    return keys


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


def proven(token: str, keys: Keys) -> jwt.Token:
    """The token, if one of the keys signed it. Raises UnknownKey, and JoseError or ValueError for what is no token."""
    header = jws.extract_compact(token.encode()).headers()
    kind, kid = ALGORITHMS.get(header["alg"]), header.get("kid")
    if kind is None:
        raise ValueError(f"signed by {str(header['alg'])[:20]!r}")
    fitting = [key for key in keys if key.key_type == kind and (kid is None or key.kid in (None, kid))]
    for key in fitting:
        with suppress(BadSignatureError):
            return jwt.decode(token, key, registry=_REGISTRY)
    if kid is not None and any(key.kid == kid for key in fitting):
        raise BadSignatureError
    raise UnknownKey
