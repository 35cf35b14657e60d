"""Owns a tool that waits until a test lets it go, and says or fails with what the model told it to."""

import asyncio
from collections.abc import Mapping
from typing import Any

from django.apps import AppConfig
from django.conf import settings

NAME = "wait"
PAUSE_S = 0.02


class WaitingTool(AppConfig):
    """Makes the tool one of the site's."""

    name = "tests.browser"
    label = "waiting_tool"

    def ready(self) -> None:
        """Once models can be imported, for some tools read rows."""
        from streaming.tools.catalogue import TOOLS
        from streaming.tools.tool import Tool, parameters

        text = {"type": "string"}
        schema = parameters(
            ("say",), say=text, until={"type": "string", "pattern": "^[a-z]+$"}, fail={"type": "boolean"}
        )
        TOOLS[NAME] = Tool(NAME, "Waits for a test.", schema, called)


async def called(user_id: int, arguments: Mapping[str, Any]) -> str:
    """Returns ``say`` as soon as there is a file ``until`` in the site's folder."""
    from streaming.tools.tool import ToolFailed

    while "until" in arguments and not (settings.DATA_DIR / arguments["until"]).exists():
        await asyncio.sleep(PAUSE_S)
    if arguments.get("fail"):
        raise ToolFailed(arguments["say"])
    return str(arguments["say"])
