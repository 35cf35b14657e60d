"""Owns invitations in the database: issued once, kept as hashes, used once. Knows no request."""

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from streaming.models import Invitation

from . import clock
from .access import TOKEN_FORMAT

DAYS_MAX = 90


def issue(by: User | None, lifetime: timedelta, note: str = "") -> tuple[Invitation, str]:
    """Make an invitation; returns its row and the token of its link, which cannot be read again."""
    token = secrets.token_urlsafe(32)
    expires_at = clock.now() + lifetime
    row = Invitation.objects.create(created_by=by, note=note, sha256=_sha256(token), expires_at=expires_at)
    return row, token


def is_good(token: str) -> bool:
    """Whether somebody may still make an account by it."""
    return bool(TOKEN_FORMAT.fullmatch(token)) and _good(token).exists()


def use_up(token: str, user: User) -> bool:
    """Use it for a user that was just made; False if it is unknown, used or expired: then the user must not stay."""
    # Compare and set in one statement: of two at once, one changes the row.
    return bool(_good(token).update(used_at=timezone.now(), used_by=user))


def _good(token: str) -> QuerySet[Invitation]:
    is_to_come = clock.counts_until("expires_at", timedelta(days=DAYS_MAX))
    return Invitation.objects.filter(is_to_come, sha256=_sha256(token), used_at__isnull=True)


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
