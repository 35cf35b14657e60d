"""Owns which of our tools an answer may call today, what runs them, and how many. Runs none, knows none by name."""

from collections.abc import Sequence
from functools import partial

from django.conf import settings

from streaming import tools
from streaming.relay import Tools

from .ask import Refused


def check_offered(names: Sequence[str]) -> None:
    """Raises Refused. Who repeats a request by its key has met its answer before, whatever PAGE_TOOLS says by now."""
    offered = tools.available()
    for nth, name in enumerate(names):
        if name not in offered:
            param = f"run_tools.{nth}"
            known = ", ".join(offered) or "it offers none"
            message = f'{param}: must be a tool that this site offers: {known} (got "{name}")'
            raise Refused(400, "invalid_request", message, param=param)


def tools_for(user_id: int | None, names: Sequence[str]) -> Tools | None:
    """For an answer to this user that may call these; None where it may call none."""
    if not names or user_id is None:
        return None
    return Tools(
        partial(tools.run, user_id, names), frozenset(names), settings.TOOL_ROUNDS_MAX, settings.TOOL_CALLS_MAX
    )
