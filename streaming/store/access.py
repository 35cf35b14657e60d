"""Owns API keys and one-time logins in the database: issued once, kept as hashes. Knows no request."""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from streaming.models import ApiKey, LoginToken
from streaming.models.access import SCOPES

from . import clock, sessions
from .threads import impatient

logger = logging.getLogger(__name__)

KEY_FORMAT = re.compile(r"sk-[A-Za-z0-9_-]{43}", re.ASCII)
TOKEN_FORMAT = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
PREFIX_CHARS = 9
USED_NOTE_EVERY = timedelta(minutes=1)
LINK_LIFETIME_MAX = timedelta(days=7)

KeyState = Literal["valid", "key_expired", "key_revoked"]

#: Keys of one user that are neither revoked nor expired. More is a script that went wrong.
LIVE_KEYS_MAX = 50

#: Every request of the API asks this: through the ORM it is a millisecond.
_FIND_KEY = """SELECT k.id, u.id, k.sha256, u.username, k.revoked_at IS NOT NULL OR NOT u.is_active,
      k.expires_at IS NOT NULL AND k.expires_at <= CURRENT_TIMESTAMP,
      k.last_used_at IS NULL OR k.last_used_at NOT BETWEEN %s AND %s, k.scopes
    FROM streaming_apikey k JOIN auth_user u ON u.id = k.user_id WHERE k.sha256 = %s"""


class TooManyKeys(Exception):
    """The user has LIVE_KEYS_MAX keys that still work."""

    def __init__(self, user: User):
        super().__init__(f"{user} has {LIVE_KEYS_MAX} keys that work, which is the most; revoke one first")


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key that exists, and whether it may be used."""

    api_key: ApiKey
    state: KeyState


def ensure_user(username: str, superuser: bool = False) -> User:
    """The user of that name, made without a password if needed. Raises ValidationError for an impossible name."""
    fresh = User(username=username, is_active=True)
    fresh.set_unusable_password()
    fresh.clean_fields()  # before anybody is looked for: PostgreSQL takes no NUL in a question either
    user = User.objects.filter(username=username).first()
    if user is None:
        user = fresh
        user.save()
    if superuser and not user.is_superuser:
        user.is_staff = user.is_superuser = True
        user.save(update_fields=["is_staff", "is_superuser"])
    return user


def issue_key(user: User, name: str = "") -> str:
    """Make a key and return it. This is the only time that it can be read."""
    return new_key(user, name)[1]


def new_key(
    user: User, name: str = "", lifetime: timedelta | None = None, scopes: Collection[str] = SCOPES
) -> tuple[ApiKey, str]:
    """Make a key that works for ``lifetime`` (None: until it is revoked); returns its row and the key itself.

    Raises ValueError for no scope, or one that there is not; TooManyKeys.
    """
    if not scopes or not set(scopes) <= set(SCOPES):
        raise ValueError(f"scopes: some of {', '.join(SCOPES)} (got {', '.join(scopes)[:100] or 'none'})")
    plaintext = f"sk-{secrets.token_urlsafe(32)}"
    with transaction.atomic():
        check_room(user)
        row = ApiKey.objects.create(
            user=user,
            name=name,
            prefix=plaintext[:PREFIX_CHARS],
            sha256=_sha256(plaintext),
            scopes=" ".join(scope for scope in SCOPES if scope in scopes),
            expires_at=clock.now() + lifetime if lifetime else None,
        )
    return row, plaintext


def check_room(user: User) -> None:
    """Raises TooManyKeys if one more would be. Until the end of the transaction nobody else makes one for the user."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if working_keys(user).count() >= LIVE_KEYS_MAX:
        raise TooManyKeys(user)


def until(day: date | None) -> timedelta | None:
    """How long from now it is to the beginning of a day (UTC)."""
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC) - clock.now()


def working_keys(user: User) -> QuerySet[ApiKey]:
    """Those of the user's keys that are neither revoked nor expired."""
    return ApiKey.objects.filter(_unexpired(), user=user, revoked_at__isnull=True)


def find_key(plaintext: str) -> FoundKey | None:
    """The key with its user, by one query on the hash; None if there is no such key. Only what it reads is loaded."""
    if not KEY_FORMAT.fullmatch(plaintext):
        return None
    digest = _sha256(plaintext)
    now = timezone.now()
    dates = [connection.ops.adapt_datetimefield_value(date) for date in _noted(now)]
    with connection.cursor() as cursor:
        cursor.execute(_FIND_KEY, [*dates, digest])
        row = cursor.fetchone()
    if row is None or not hmac.compare_digest(row[2], digest):
        return None
    key_id, user_id, _, username, is_revoked, is_expired, is_unnoted, scopes = row
    api_key = ApiKey.from_db(connection.alias, ("id", "user_id", "scopes"), (key_id, user_id, scopes))
    api_key.user = User.from_db(connection.alias, ("id", "username"), (user_id, username))
    if is_revoked:
        return FoundKey(api_key, "key_revoked")
    if is_expired:
        return FoundKey(api_key, "key_expired")
    if is_unnoted:
        _note_used(api_key.pk, now)
    return FoundKey(api_key, "valid")


def key_of_id(key_id: int | None) -> FoundKey | None:
    """The key of a row, as a batch that was made with it acts; None where it is gone."""
    row = ApiKey.objects.select_related("user").filter(pk=key_id).first() if key_id is not None else None
    if row is None:
        return None
    if row.revoked_at is not None or not row.user.is_active:
        return FoundKey(row, "key_revoked")
    is_expired = row.expires_at is not None and row.expires_at <= clock.now()
    return FoundKey(row, "key_expired" if is_expired else "valid")


def _noted(now: datetime) -> tuple[datetime, datetime]:
    """Between these a key's last use needs no note. Later is of a clock that was set back: it would stand for ever."""
    return now - USED_NOTE_EVERY, now + USED_NOTE_EVERY


def _note_used(key_id: int, now: datetime) -> None:
    unnoted = Q(last_used_at__isnull=True) | ~Q(last_used_at__range=_noted(now))
    try:
        with impatient():
            ApiKey.objects.filter(unnoted, pk=key_id).update(last_used_at=now)
    except DatabaseError as error:
        # A note for the owner's eyes is worth neither refusing the request nor keeping it waiting.
        logger.info("could not note that key %s was used: %s", key_id, error)


def revoke_keys(keys: "list[int]") -> int:
    """Revoke keys by primary key; those already revoked keep their time."""
    return ApiKey.objects.filter(pk__in=keys, revoked_at__isnull=True).update(revoked_at=timezone.now())


def still_good(key_ids: Collection[int], session_keys: Collection[str]) -> set[int | str]:
    """Of API keys and sessions those that still let somebody in."""
    keys = ApiKey.objects.filter(_unexpired(), pk__in=key_ids, revoked_at__isnull=True, user__is_active=True)
    good: set[int | str] = set(keys.values_list("pk", flat=True)) if key_ids else set()
    return good | (sessions.users_of(session_keys).keys() if session_keys else set())


def _unexpired() -> Q:
    return Q(expires_at__isnull=True) | Q(expires_at__gt=Now())


def issue_login_token(user: User, ttl: timedelta) -> str:
    """Make the token of a link that logs the user in once, within ``ttl``, LINK_LIFETIME_MAX at most."""
    plaintext = secrets.token_urlsafe(32)
    LoginToken.objects.create(user=user, sha256=_sha256(plaintext), expires_at=clock.now() + ttl)
    return plaintext


def redeem_login_token(plaintext: str) -> User | None:
    """Use a token up and return its user; None if it is unknown, used, expired or its user is inactive."""
    if not TOKEN_FORMAT.fullmatch(plaintext):
        return None
    people = LoginToken.objects.filter(user__is_active=True, user__service_account__isnull=True)
    token = people.select_related("user").filter(sha256=_sha256(plaintext)).first()
    if token is None:
        return None
    # Compare and set in one statement and over this row's own columns: whoever waited for the row has them read anew,
    # while PostgreSQL answers a join from before the wait, to both.
    is_to_come = clock.counts_until("expires_at", LINK_LIFETIME_MAX)
    fresh = LoginToken.objects.filter(is_to_come, pk=token.pk, used_at__isnull=True)
    return token.user if fresh.update(used_at=timezone.now()) else None


def _sha256(plaintext: str) -> str:
    return hashlib.sha256(plaintext.encode()).hexdigest()
