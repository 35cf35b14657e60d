"""Owns what a user does with their own API keys: listing, making, revoking. Every query has its owner in it."""

import re
from collections.abc import Collection
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction

from streaming.models import ApiKey, AuditEntry

from . import access

ID_FORMAT = re.compile(r"[0-9]{1,18}", re.ASCII)
#: Keys that are neither revoked nor expired. More than this is a script that went wrong.
LIVE_KEYS_MAX = 50


class TooManyKeys(Exception):
    """The user has LIVE_KEYS_MAX keys that still work."""


def listed(user: User) -> list[ApiKey]:
    """All of the user's keys, latest first; of none of them the key itself."""
    return list(ApiKey.objects.filter(user=user).order_by("-created_at", "-pk"))


def issue(user: User, name: str, lifetime: timedelta | None, scopes: Collection[str]) -> tuple[ApiKey, str]:
    """A new key and its row. This is the only time that it can be read. Raises TooManyKeys."""
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # two at once are counted one after the other
        if access.working_keys(user).count() >= LIVE_KEYS_MAX:
            raise TooManyKeys
        made = access.new_key(user, name, lifetime, scopes)
        _note(user, "added", made[0])
        return made


def revoke(user: User, key_id: str) -> None:
    """From the next request on it is refused. Raises ApiKey.DoesNotExist alike for another's and for an unknown one."""
    if not ID_FORMAT.fullmatch(key_id):
        raise ApiKey.DoesNotExist
    key = ApiKey.objects.get(user=user, pk=int(key_id))
    if access.revoke_keys([key.pk]):
        _note(user, "revoked", key)


def _note(user: User, action: str, key: ApiKey) -> None:
    AuditEntry.objects.create(
        actor_id=user.pk,
        actor=user.get_username(),
        action=action,
        target_kind="apikey",
        target_id=str(key.pk),
        detail={"name": str(key), "scopes": key.scopes},
    )
