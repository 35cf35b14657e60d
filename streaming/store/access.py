"""Owns API keys and one-time logins in the database: issued once, kept as hashes. Knows no request."""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone

from streaming.models import ApiKey, LoginToken

from .threads import impatient

logger = logging.getLogger(__name__)

KEY_FORMAT = re.compile(r"sk-[A-Za-z0-9_-]{43}", re.ASCII)
TOKEN_FORMAT = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
PREFIX_CHARS = 9
USED_NOTE_EVERY = timedelta(minutes=1)

KeyState = Literal["valid", "key_expired", "key_revoked"]


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key that exists, and whether it may be used."""

    api_key: ApiKey
    state: KeyState


def ensure_user(username: str, superuser: bool = False) -> User:
    """The user of that name, made without a password if needed. Raises ValidationError for an impossible name."""
    user = User.objects.filter(username=username).first()
    if user is None:
        user = User(username=username, is_active=True)
        user.set_unusable_password()
        user.clean_fields()
        user.save()
    if superuser and not user.is_superuser:
        user.is_staff = user.is_superuser = True
        user.save(update_fields=["is_staff", "is_superuser"])
    return user


def issue_key(user: User, name: str = "") -> str:
    """Make a key and return it. This is the only time that it can be read."""
    plaintext = f"sk-{secrets.token_urlsafe(32)}"
    ApiKey.objects.create(user=user, name=name, prefix=plaintext[:PREFIX_CHARS], sha256=_sha256(plaintext))
    return plaintext


def find_key(plaintext: str) -> FoundKey | None:
    """The key with its user, by one query on the hash; None if there is no such key."""
    if not KEY_FORMAT.fullmatch(plaintext):
        return None
    digest = _sha256(plaintext)
    api_key = ApiKey.objects.select_related("user").filter(sha256=digest).first()
    if api_key is None or not hmac.compare_digest(api_key.sha256, digest):
        return None
    state = _state(api_key)
    if state == "valid":
        _note_used(api_key)
    return FoundKey(api_key, state)


def _state(api_key: ApiKey) -> KeyState:
    if api_key.revoked_at is not None or not api_key.user.is_active:
        return "key_revoked"
    if api_key.expires_at is not None and api_key.expires_at <= timezone.now():
        return "key_expired"
    return "valid"


def _note_used(api_key: ApiKey) -> None:
    now = timezone.now()
    stale = now - USED_NOTE_EVERY
    if api_key.last_used_at is not None and api_key.last_used_at > stale:
        return
    unnoted = Q(last_used_at__isnull=True) | Q(last_used_at__lte=stale)
    try:
        with impatient():
            ApiKey.objects.filter(unnoted, pk=api_key.pk).update(last_used_at=now)
    except DatabaseError as error:
        # A note for the owner's eyes is worth neither refusing the request nor keeping it waiting.
        logger.info("could not note that key %s was used: %s", api_key.pk, error)


def revoke_keys(keys: "list[int]") -> int:
    """Revoke keys by primary key; those already revoked keep their time."""
    return ApiKey.objects.filter(pk__in=keys, revoked_at__isnull=True).update(revoked_at=timezone.now())


def still_good(key_ids: Collection[int], session_keys: Collection[str]) -> set[int | str]:
    """Of API keys and sessions those that still let somebody in."""
    now = timezone.now()
    unexpired = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    keys = ApiKey.objects.filter(unexpired, pk__in=key_ids, revoked_at__isnull=True, user__is_active=True)
    sessions = Session.objects.filter(session_key__in=session_keys, expire_date__gt=now)
    good: set[int | str] = set(keys.values_list("pk", flat=True)) if key_ids else set()
    return good | set(sessions.values_list("session_key", flat=True) if session_keys else ())


def issue_login_token(user: User, ttl: timedelta) -> str:
    """Make the token of a link that logs the user in once, within ``ttl``."""
    plaintext = secrets.token_urlsafe(32)
    LoginToken.objects.create(user=user, sha256=_sha256(plaintext), expires_at=timezone.now() + ttl)
    return plaintext


def redeem_login_token(plaintext: str) -> User | None:
    """Use a token up and return its user; None if it is unknown, used, expired or its user is inactive."""
    if not TOKEN_FORMAT.fullmatch(plaintext):
        return None
    now = timezone.now()
    digest = _sha256(plaintext)
    # Compare and set in one statement: of two requests at once, one changes the row.
    fresh = LoginToken.objects.filter(sha256=digest, used_at__isnull=True, expires_at__gt=now, user__is_active=True)
    if not fresh.update(used_at=now):
        return None
    return LoginToken.objects.select_related("user").get(sha256=digest).user


def _sha256(plaintext: str) -> str:
    return hashlib.sha256(plaintext.encode()).hexdigest()
