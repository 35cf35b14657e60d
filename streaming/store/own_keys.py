"""Owns what a user does with their own API keys: listing, revoking. Every query has its owner in it."""

import re

from django.contrib.auth.models import User

from streaming.models import ApiKey

from . import access

ID_FORMAT = re.compile(r"[0-9]{1,18}", re.ASCII)


def listed(user: User) -> list[ApiKey]:
    """All of the user's keys, latest first; of none of them the key itself."""
    return list(ApiKey.objects.filter(user=user).order_by("-created_at", "-pk"))


def revoke(user: User, key_id: str) -> ApiKey | None:
    """From the next request on it is refused; None if it was before.

    Raises ApiKey.DoesNotExist alike for another's and for an unknown one.
    """
    if not ID_FORMAT.fullmatch(key_id):
        raise ApiKey.DoesNotExist
    key = ApiKey.objects.get(user=user, pk=int(key_id))
    return key if access.revoke_keys([key.pk]) else None
