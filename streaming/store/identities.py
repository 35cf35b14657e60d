"""Owns identities in the database: whose one is, and the account that is made for a new one. Asks no provider."""

import re
import secrets
import unicodedata

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from streaming.models import Identity

NAME_CHARS_MAX = 140
#: Names that are tried with a number before one is drawn.
NUMBERED_MAX = 9
_NOT_IN_NAMES = re.compile(r"[^\w.@+-]+")


def user_of(issuer: str, subject: str) -> User | None:
    """Whose it is, active or not; a program's never. Notes that it was used."""
    found = Identity.objects.select_related("user").filter(
        issuer=issuer, subject=subject, user__service_account__isnull=True
    )
    identity = found.first()
    if identity is None:
        return None
    if identity.user.is_active:
        found.update(last_used_at=timezone.now())
    return identity.user


def make_account(issuer: str, subject: str, name: str, email: str) -> User | None:
    """A new user without rights and password, called ``name`` or nearly so; None if the identity is somebody's already.

    Never an account that is there: neither a name nor an e-mail address proves whose it is.
    """
    for username in _names(name):
        try:
            with transaction.atomic():
                user = User(username=username, email=email)
                user.set_unusable_password()
                user.save()
                Identity.objects.create(user=user, issuer=issuer, subject=subject, last_used_at=timezone.now())
        except IntegrityError:
            if Identity.objects.filter(issuer=issuer, subject=subject).exists():
                return None
        else:
            return user
    return None


def _names(said: str) -> list[str]:
    """What a new account may be called, in the order in which it is tried."""
    name = _NOT_IN_NAMES.sub("-", unicodedata.normalize("NFKC", said)).strip("-")[:NAME_CHARS_MAX] or "user"
    numbered = [f"{name}-{number}" for number in range(2, NUMBERED_MAX + 1)]
    return [name, *numbered, f"{name}-{secrets.token_hex(4)}"]
