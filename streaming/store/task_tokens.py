"""Owns the tokens with which our own tasks call our own API: signed, for one user, one purpose, one minute. No row."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.core import signing

from streaming.models import Response

#: What tells them from API keys.
PREFIX = "task-"
#: Clocks of the worker and of the site may differ by less.
TTL_S = 60
SALT = "streaming.task_tokens"
#: What a task may ask for, and where: nothing else is opened by its token.
PATHS = {Response.Purpose.TITLE.value: "/v1/chat/completions"}


@dataclass(frozen=True, slots=True)
class Granted:
    """Whom a task asks for, and what."""

    user: User
    purpose: str


def issue(user_id: int, purpose: str) -> str:
    """A token for one of PATHS' purposes."""
    if purpose not in PATHS:
        raise ValueError(f"no task asks for {purpose!r}")
    return PREFIX + signing.dumps({"user": user_id, "purpose": purpose}, salt=SALT)


def redeem(token: str, path: str) -> Granted | None:
    """What the token grants on this path; None if it is not ours, too old, meant for another, or its user inactive."""
    try:
        said = signing.loads(token.removeprefix(PREFIX), salt=SALT, max_age=TTL_S)
    except signing.BadSignature:
        return None
    user = User.objects.filter(pk=said["user"], is_active=True).first()
    if user is None or PATHS.get(said["purpose"]) != path:
        return None
    return Granted(user, said["purpose"])
