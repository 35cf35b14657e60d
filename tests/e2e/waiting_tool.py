"""Owns a tool that waits until a test lets it go, and says or fails with what the model told it to.

It leaves its marks in a folder: that it began, a dot for each time, and that it was cancelled.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from django.apps import AppConfig
from django.conf import settings

NAME = "wait"
PAUSE_S = 0.01


class WaitingTool(AppConfig):
    """Makes the tool one of the site's."""

    name = "tests.e2e"
    label = "waiting_tool"

    def ready(self) -> None:
        """Once models can be imported, for some tools read rows."""
        from streaming.tools.catalogue import TOOLS
        from streaming.tools.tool import Tool, parameters

        text = {"type": "string"}
        schema = parameters(
            ("say",), say=text, until={"type": "string", "pattern": "^[a-z0-9_]+$"}, fail={"type": "boolean"}
        )
        TOOLS[NAME] = Tool(NAME, "Waits for a test.", schema, called)


async def called(user_id: int, arguments: Mapping[str, Any]) -> str:
    """Returns ``say`` as soon as there is a file ``until``."""
    from streaming.tools.tool import ToolFailed

    if "until" in arguments:
        await _file(arguments["until"])
    if arguments.get("fail"):
        raise ToolFailed(arguments["say"])
    return str(arguments["say"])


async def _file(name: str) -> None:
    folder = settings.WAITING_TOOL_DIR
    with (folder / f"{name}.began").open("a") as began:
        began.write(".")
    try:
        while not (folder / name).exists():
            await asyncio.sleep(PAUSE_S)
    except asyncio.CancelledError:
        (folder / f"{name}.cancelled").touch()
        raise
