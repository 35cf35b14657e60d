"""Owns what runs an answer's calls here, and how many of them, from settings. Runs none, knows none by name."""

from collections.abc import Sequence
from functools import partial

from django.conf import settings

from streaming import tools
from streaming.relay import Tools


def tools_for(user_id: int | None, names: Sequence[str]) -> Tools | None:
    """For an answer to this user that may call these; None where it may call none."""
    if not names or user_id is None:
        return None
    return Tools(
        partial(tools.run, user_id, names), frozenset(names), settings.TOOL_ROUNDS_MAX, settings.TOOL_CALLS_MAX
    )
