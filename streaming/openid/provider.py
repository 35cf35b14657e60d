"""Owns the way of a person through the provider: where they are sent, and who comes back. Lets nobody in.

Authorization code with PKCE (S256), state and nonce. Tokens are used for one look and kept nowhere.
"""

from dataclasses import dataclass
from typing import Any

from authlib.common.security import generate_token
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from . import client_auth, id_token, metadata, signing_keys
from .client import NO_PERSONS_FAULT, Away, Client, Refused
from .kept import Kept
from .metadata import Metadata
from .signing_keys import Keys, UnknownKey
from .wire import ask

#: People who come back at the same moment, in this process: strangers can make it ask, but not in heaps.
AT_ONCE_MAX = 16
#: A PKCE verifier has 43 to 128 characters.
VERIFIER_CHARS = 64


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was made up for one way there and back. The browser that began it keeps it, and no other has it."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str

    @classmethod
    def begun(cls, redirect_uri: str) -> "Attempt":
        """A new one, to come back to an address of the site."""
        return cls(generate_token(32), generate_token(32), generate_token(VERIFIER_CHARS), redirect_uri)


@dataclass(frozen=True, slots=True)
class Person:
    """Who came back: the same subject is the same person for ever, the rest are words that may change."""

    subject: str
    name: str
    email: str
    #: Whether the provider has seen that the person reads mail at ``email``.
    email_is_confirmed: bool


class Provider:
    """The provider, for one process; what it says of itself is kept for a while."""

    def __init__(self, client: Client):
        self.client = client
        self._coming_back = 0
        self._metadata = Kept(self._fetch_metadata)
        self._keys = Kept(self._fetch_keys)

    async def address_for(self, attempt: Attempt) -> str:
        """Where the browser is sent. Raises Away."""
        known = await self._metadata.get()
        challenge = create_s256_code_challenge(attempt.verifier)
        url: str = prepare_grant_uri(
            known.authorization_endpoint,
            self.client.client_id,
            "code",
            redirect_uri=attempt.redirect_uri,
            scope=list(self.client.scopes),
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=challenge,
            code_challenge_method="S256",
        )
        return url

    async def person(self, code: str, attempt: Attempt) -> Person:
        """Who the code is of. Raises Refused, and Away, also where too many are under way."""
        if self._coming_back >= AT_ONCE_MAX:
            raise Away(f"{AT_ONCE_MAX} people come back at this moment")
        self._coming_back += 1
        try:
            known = await self._metadata.get()
            tokens = await self._redeem(known, code, attempt)
            access_token = tokens.get("access_token")
            claims = await self._claims(tokens, attempt.nonce)
            if "email" in self.client.scopes and "email" not in claims and known.userinfo_endpoint:
                claims |= await self._more(known, claims["sub"], access_token)
        finally:
            self._coming_back -= 1
        return _person(claims)

    async def _fetch_metadata(self) -> Metadata:
        _, document = await ask(self.client, "GET", metadata.address(self.client.issuer))
        return metadata.read(self.client.issuer, document)

    async def _fetch_keys(self) -> Keys:
        known = await self._metadata.get()
        return signing_keys.read((await ask(self.client, "GET", known.jwks_uri))[1])

    async def _redeem(self, known: Metadata, code: str, attempt: Attempt) -> dict[str, Any]:
        body = prepare_token_request(
            "authorization_code", redirect_uri=attempt.redirect_uri, code=code, code_verifier=attempt.verifier
        )
        headers, body = client_auth.added(self.client, known.auth_methods, body)
        status, tokens = await ask(self.client, "POST", known.token_endpoint, headers, body)
        if status != 200 or not isinstance(tokens, dict):
            error = str(tokens.get("error"))[:100] if isinstance(tokens, dict) else ""
            # What is wrong with the site, or with too many of it, is no fault of this person.
            whose = Away if status in (401, 429) or error in NO_PERSONS_FAULT else Refused
            raise whose(f"the code was not taken: {status}, {error!r}")
        return tokens

    async def _claims(self, tokens: dict[str, Any], nonce: str) -> dict[str, Any]:
        access_token = tokens.get("access_token")
        told = tokens.get("id_token"), self.client, nonce, access_token if isinstance(access_token, str) else ""
        try:
            return id_token.claims_of(told[0], await self._keys.get(), *told[1:])
        except UnknownKey:
            try:
                return id_token.claims_of(told[0], await self._keys.renew(), *told[1:])
            except UnknownKey:
                raise Refused("ID token: signed by a key that the provider does not show") from None

    async def _more(self, known: Metadata, subject: str, access_token: Any) -> dict[str, Any]:
        """What stands in no ID token of this provider's. Core 1.0, section 5.3.2: only if it is of the same subject."""
        if not isinstance(access_token, str):
            return {}
        bearer = {"Authorization": f"Bearer {access_token}"}
        _, said = await ask(self.client, "GET", known.userinfo_endpoint, bearer)
        if not isinstance(said, dict) or said.get("sub") != subject:
            return {}
        return {name: said[name] for name in ("email", "email_verified", "preferred_username", "name") if name in said}


def _person(claims: dict[str, Any]) -> Person:
    email, name = _text(claims.get("email")), _text(claims.get("preferred_username"))
    return Person(
        subject=claims["sub"],
        name=name or email.partition("@")[0] or _text(claims.get("name")),
        email=email,
        # Some providers spell it as a text.
        email_is_confirmed=bool(email) and claims.get("email_verified") in (True, "true"),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= 254 and value.isprintable() else ""
