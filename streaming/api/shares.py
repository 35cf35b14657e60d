"""Owns the page's routes for shared links. Owner checks are in store.shares; what a link shows is a page of views."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.urls import reverse
from ninja import Router, Status
from pydantic import BaseModel

from streaming.models import Conversation, Share
from streaming.store import shares as store

from .auth import caller
from .errors import ApiError
from .messages import MessageId
from .schemas import StrictBody

router = Router()


class NewShare(StrictBody):
    """``POST …/shares``: the last message of the path that the link shall show."""

    message: MessageId


class ShareOut(BaseModel):
    """A link that works, without the link."""

    id: int
    created_at: datetime


class MadeShareOut(ShareOut):
    """A link that was just made; ``path`` is never shown again."""

    path: str


class SharesOut(BaseModel):
    """The links of a conversation that work, latest first."""

    data: list[ShareOut]


@router.get("/conversations/{conversation_id}/shares", response=SharesOut)
async def list_shares(request: HttpRequest, conversation_id: str) -> SharesOut:
    """Which links to the conversation work."""
    found = await _found(store.listed, caller(request).user, conversation_id)
    return SharesOut(data=[ShareOut(id=share.pk, created_at=share.created_at) for share in found])


@router.post("/conversations/{conversation_id}/shares", response={201: MadeShareOut})
async def create_share(request: HttpRequest, conversation_id: str, body: NewShare) -> Any:
    """A link by which whoever has it reads the path down to a message, as it is stored then."""
    try:
        share, token = await _found(store.create, caller(request).user, conversation_id, body.message)
    except store.NotShareable as error:
        raise ApiError(
            400, f"message: {error} (got {body.message[:40]!r})", code="invalid_request", param="message"
        ) from None
    return Status(201, MadeShareOut(id=share.pk, created_at=share.created_at, path=reverse("shared", args=[token])))


@router.delete("/conversations/{conversation_id}/shares/{share_id}", response={204: None})
async def revoke_share(request: HttpRequest, conversation_id: str, share_id: str) -> Any:
    """Revoke a link."""
    await _found(store.revoke, caller(request).user, conversation_id, share_id)
    return Status(204, None)


async def _found(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return await sync_to_async(function, thread_sensitive=True)(*args)
    except Conversation.DoesNotExist:
        raise ApiError(404, "there is no such conversation", code="not_found") from None
    except Share.DoesNotExist:
        raise ApiError(404, "there is no such link", code="not_found") from None
