"""Owns how a site under test sees which gates are open: it looks for their files. Opens none."""

import asyncio

from django.apps import AppConfig
from django.conf import settings

PAUSE_S = 0.01


class Gates(AppConfig):
    """Has scripted engines wait for files; a name of which there is never a file is a gate that never opens."""

    name = "tests.gates"
    label = "gates"

    def ready(self) -> None:
        """Once settings can be read."""
        from streaming.engine.scripted import ScriptedEngine

        ScriptedEngine._pass_gate = _passed


async def _passed(_engine: object, name: str) -> None:
    while not (settings.GATES_DIR / name).exists():
        await asyncio.sleep(PAUSE_S)
