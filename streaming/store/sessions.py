"""Owns whom a session lets in at this moment. Begins and ends none: Django does."""

from collections.abc import Collection
from functools import lru_cache

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils.crypto import constant_time_compare

from .session_rows import SessionStore, unexpired


def users_of(session_keys: Collection[str]) -> dict[str, User]:
    """Whom each session lets in: neither expired nor ended, its user active, the password still the same."""
    rows = Session.objects.filter(unexpired(), session_key__in=session_keys)
    claims = {key: _claims(data) for key, data in rows.values_list("session_key", "session_data")}
    users = User.objects.filter(is_active=True).in_bulk({user_id for user_id, _ in claims.values() if user_id})
    found = {key: (users.get(user_id), seal) for key, (user_id, seal) in claims.items() if user_id}
    return {key: user for key, (user, seal) in found.items() if user and _is_sealed(user, seal)}


@lru_cache(4096)
def _claims(session_data: str) -> tuple[int | None, str]:
    """The user of a stored session, and the seal that a change of the password breaks."""
    session = SessionStore().decode(session_data)
    user_id = session.get(SESSION_KEY)
    return (int(user_id) if user_id else None), session.get(HASH_SESSION_KEY, "")


def _is_sealed(user: User, seal: str) -> bool:
    """Also by an earlier secret key that still counts."""
    seals = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(seal, own) for own in seals)
