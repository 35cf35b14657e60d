"""Owns the tokens with which our own tasks call our own API: signed, for one user, one purpose, one minute. No row.

A token that names an API key is worth what that key is worth at the moment of the call, and never more.
"""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.core import signing

from streaming.models import Response
from streaming.protocol.batch_lines import ENDPOINTS

from .access import FoundKey, key_of_id

#: What tells them from API keys.
PREFIX = "task-"
#: Clocks of the worker and of the site may differ by less.
TTL_S = 60
SALT = "streaming.task_tokens"
#: What a task may ask for, and where: nothing else is opened by its token.
PATHS = {Response.Purpose.TITLE.value: ("/v1/chat/completions",), Response.Purpose.BATCH.value: ENDPOINTS}


@dataclass(frozen=True, slots=True)
class Granted:
    """Whom a task asks for, and what. ``key`` is the API key by whose rights it does, where it is one's."""

    user: User
    purpose: str
    key: FoundKey | None


def issue(user_id: int, purpose: str, api_key_id: int | None = None) -> str:
    """A token for one of PATHS' purposes. A batch always acts by a key: without one its token opens nothing."""
    if purpose not in PATHS:
        raise ValueError(f"no task asks for {purpose!r}")
    return PREFIX + signing.dumps({"user": user_id, "purpose": purpose, "key": api_key_id}, salt=SALT)


def redeem(token: str, path: str) -> Granted | None:
    """What the token grants on this path; None if it is not ours, too old, meant for another, or its user inactive."""
    try:
        said = signing.loads(token.removeprefix(PREFIX), salt=SALT, max_age=TTL_S)
    except signing.BadSignature:
        return None
    if path not in PATHS.get(said["purpose"], ()):
        return None
    if said["purpose"] == Response.Purpose.BATCH:
        found = key_of_id(said["key"])
        return Granted(found.api_key.user, said["purpose"], found) if found else None
    user = User.objects.filter(pk=said["user"], is_active=True).first()
    return Granted(user, said["purpose"], None) if user else None
