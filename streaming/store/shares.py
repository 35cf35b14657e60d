"""Owns shared links in the database: made, listed and revoked by their owner, read by whoever has one."""

import hashlib
import re
import secrets
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from streaming.models import Conversation, Message, Share

from . import conversations, history

TOKEN_FORMAT = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
ID_FORMAT = re.compile(r"[0-9]{1,18}", re.ASCII)
#: Not the system prompt: that was written for the model alone.
SHOWN = (Message.Role.USER, Message.Role.ASSISTANT)
#: Links of one conversation that still work. More than this is a script that went wrong.
LIVE_SHARES_MAX = 20


class NotShareable(Exception):
    """That message is no end of a path that can be shown; the text says why."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What a link shows: texts alone, as they are stored now. What was deleted or erased is in it no more."""

    title: str
    turns: list[dict[str, str]]


def create(user: User, conversation_id: str, leaf_id: str) -> tuple[Share, str]:
    """A link to the path that ends with a message; returns its row and the token, which is not stored.

    Raises Conversation.DoesNotExist, or NotShareable.
    """
    conversation = conversations.get(user, conversation_id)
    if not Message.objects.filter(id=leaf_id, conversation=conversation).exists():
        raise NotShareable("no message of this conversation")
    answer = history.answer_to(leaf_id, conversation_id)
    if answer is not None and answer.end_state is None:
        raise NotShareable("that answer is still being written")
    if _working(conversation).count() >= LIVE_SHARES_MAX:
        raise NotShareable(f"this conversation has {LIVE_SHARES_MAX} links that work; revoke one first")
    token = secrets.token_urlsafe(32)
    return Share.objects.create(conversation=conversation, leaf_id=leaf_id, sha256=_sha256(token)), token


def listed(user: User, conversation_id: str) -> list[Share]:
    """The links of the user's conversation that work, latest first. Raises Conversation.DoesNotExist."""
    return list(_working(conversations.get(user, conversation_id)).order_by("-pk"))


def revoke(user: User, conversation_id: str, share_id: str) -> None:
    """From now on the link shows nothing. Raises Conversation.DoesNotExist or Share.DoesNotExist."""
    conversation = conversations.get(user, conversation_id)
    if not ID_FORMAT.fullmatch(share_id):
        raise Share.DoesNotExist
    share = Share.objects.get(conversation=conversation, pk=int(share_id))
    Share.objects.filter(pk=share.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())


def read(token: str) -> Shared | None:
    """What a link shows; None alike for one that was revoked or never was, and where its owner was locked out."""
    if not TOKEN_FORMAT.fullmatch(token):
        return None
    rows = Share.objects.select_related("conversation").filter(
        sha256=_sha256(token), revoked_at__isnull=True, conversation__user__is_active=True
    )
    share = rows.first()
    if share is None:
        return None
    turns = history.thread(share.conversation_id, share.leaf_id)
    return Shared(share.conversation.title, [turn for turn in turns if turn["role"] in SHOWN])


def _working(conversation: Conversation) -> QuerySet[Share]:
    return Share.objects.filter(conversation=conversation, revoked_at__isnull=True)


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
