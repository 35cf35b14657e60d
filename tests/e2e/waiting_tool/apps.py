"""Owns the tool ``wait``: it says in a folder that it began, and has its result when a file lets it go."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.apps import AppConfig

FOLDER = Path(os.environ.get("WAITING_TOOL_DIR", ""))


class WaitingToolConfig(AppConfig):
    name = "tests.e2e.waiting_tool"

    def ready(self) -> None:
        from streaming.tools.catalogue import TOOLS
        from streaming.tools.tool import Tool, parameters

        TOOLS["wait"] = Tool("wait", "Waits.", parameters(("name",), name={"type": "string"}), wait)


async def wait(_user_id: int, arguments: Mapping[str, Any]) -> str:
    name = arguments["name"]
    began = FOLDER / f"{name}.began"
    began.write_text(f"{began.read_text()}." if began.exists() else ".")
    try:
        while not (FOLDER / f"{name}.go").exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        (FOLDER / f"{name}.cancelled").touch()
        raise
    return f"{name} has waited"
