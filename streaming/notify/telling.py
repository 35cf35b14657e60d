"""Owns telling a user's open pages of a change, from a process that serves none. Web processes have Changes."""

import logging
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings

from streaming.metrics.user_hash import user_hash

from .change import Change
from .layer import UNHEARD, send_to_group

logger = logging.getLogger(__name__)


def group_of(user_id: int) -> str:
    """The group that every process with an open page of the user has joined."""
    return f"pages.{user_id}"


def message_of(user_id: int, changes: list[Change], sender: str) -> dict[str, Any]:
    """What is sent to the group."""
    return {"type": "changes", "user": user_id, "sender": sender, "changes": [c.to_message() for c in changes]}


def tell(user_id: int | None, change: Change) -> None:
    """Tell every open page of the user, wherever it is; from synchronous code without a loop: a task, a command.

    Returns at once when there is no Valkey; may be lost like every wake-up. Call it after the commit.
    """
    if user_id is None or not settings.VALKEY_URL:
        return
    try:
        async_to_sync(send_to_group)(group_of(user_id), message_of(user_id, [change], ""))
    except UNHEARD as error:
        logger.warning("the pages of user %s were not told of a change: %s", user_hash(user_id), error)
