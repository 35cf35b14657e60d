"""Owns what the page shows its user of their own use and API keys. The owner checks are in the store functions."""

from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Status
from pydantic import BaseModel, Field, StringConstraints

from streaming import ownership
from streaming.audit import note
from streaming.models import ApiKey
from streaming.models.access import SCOPES
from streaming.store import access, own_keys, own_usage

from .auth import caller
from .errors import ApiError
from .schemas import StrictBody

KEY_DAYS_MAX = 3650
Scope = Literal["models:read", "responses:read", "responses:write"]

router = Router()


class NewKey(StrictBody):
    """``POST /api/me/keys``; without ``expires_in_days`` it works until it is revoked, without ``scopes`` for all."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True)]
    expires_in_days: Annotated[int, Field(ge=1, le=KEY_DAYS_MAX)] | None = None
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))] | None = None


class KeyOut(BaseModel):
    """A key, to be told from others by ``prefix``: the key itself is not stored."""

    id: int
    name: str
    prefix: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class IssuedKeyOut(KeyOut):
    """A key that was just made; ``key`` is never shown again."""

    key: str


class KeysOut(BaseModel):
    """The user's keys, latest first."""

    data: list[KeyOut]


class UsedOut(BaseModel):
    """What the user's answers of one model took on one day (UTC)."""

    day: date
    model: str
    answers: int
    prompt_tokens: int
    completion_tokens: int


class UsageOut(BaseModel):
    """The user's use, latest day first."""

    data: list[UsedOut]


@router.get("/me/usage", response=UsageOut)
async def usage(request: HttpRequest, days: int = 30) -> UsageOut:
    """Answers and tokens of the last days, by day and model, over the page and the API."""
    if not 1 <= days <= own_usage.DAYS_MAX:
        raise ApiError(400, f"days: 1 to {own_usage.DAYS_MAX} (got {days})", code="invalid_request", param="days")
    find = sync_to_async(own_usage.of_days, thread_sensitive=True)
    found = await find(caller(request).user, timezone.now().date(), days)
    fields = UsedOut.model_fields
    return UsageOut(data=[UsedOut(**{name: getattr(used, name) for name in fields}) for used in found])


@router.get("/me/keys", response=KeysOut)
async def keys(request: HttpRequest) -> KeysOut:
    """The user's API keys, also those that do not work any more."""
    found = await sync_to_async(own_keys.listed, thread_sensitive=True)(caller(request).user)
    return KeysOut(data=[KeyOut(**_shown(key)) for key in found])


@router.post("/me/keys", response={201: IssuedKeyOut})
async def create_key(request: HttpRequest, body: NewKey) -> Any:
    """A new key of the user's; the answer is the only place where it is written."""
    lifetime = None if body.expires_in_days is None else timedelta(days=body.expires_in_days)
    try:
        made, plaintext = await sync_to_async(_issue, thread_sensitive=True)(request, body, lifetime)
    except access.TooManyKeys:
        message = f"you have {access.LIVE_KEYS_MAX} keys that work; revoke one first"
        raise ApiError(409, message, code="too_many_keys") from None
    return Status(201, IssuedKeyOut(**_shown(made), key=plaintext))


@router.delete("/me/keys/{key_id}", response={204: None})
async def revoke_key(request: HttpRequest, key_id: str) -> Any:
    """Revoke a key: its next request is refused, and what it is reading now is closed."""
    try:
        await sync_to_async(_revoke, thread_sensitive=True)(request, key_id)
    except ApiKey.DoesNotExist:
        raise ApiError(404, "you have no such key", code="not_found") from None
    ownership.guards().look_soon()
    return Status(204, None)


def _issue(request: HttpRequest, body: NewKey, lifetime: timedelta | None) -> tuple[ApiKey, str]:
    user = caller(request).user
    with transaction.atomic():
        made, plaintext = access.new_key(user, body.name, lifetime, body.scopes or SCOPES)
        note(request, user, "added", made, {"name": str(made), "scopes": made.scopes})
    return made, plaintext


def _revoke(request: HttpRequest, key_id: str) -> None:
    user = caller(request).user
    with transaction.atomic():
        if (key := own_keys.revoke(user, key_id)) is not None:
            note(request, user, "revoked", key, {"name": str(key), "scopes": key.scopes})


def _shown(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in KeyOut.model_fields} | {"scopes": key.scopes.split()}
