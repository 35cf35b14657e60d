"""Owns which tools there are, and which of them the page offers. Runs none."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from . import calculate, current_time, search_conversations
from .tool import Tool

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (calculate.TOOL, current_time.tool(), search_conversations.TOOL)}


def available() -> list[str]:
    """The names of the tools that the page offers."""
    return list(settings.PAGE_TOOLS)


def definitions(names: Iterable[str]) -> list[dict[str, Any]]:
    """These tools as chat templates know them; without those that are offered no more."""
    return [TOOLS[name].definition() for name in names if name in settings.PAGE_TOOLS]


def offered(name: str, names: Iterable[str]) -> Tool | None:
    """The tool of a call, if it is among ``names`` and still offered."""
    return TOOLS[name] if name in names and name in settings.PAGE_TOOLS else None


def check_settings() -> None:
    """Raises ImproperlyConfigured where PAGE_TOOLS names what there is not, or one tool twice."""
    names = settings.PAGE_TOOLS
    if unknown := [name for name in names if name not in TOOLS]:
        raise ImproperlyConfigured(f"PAGE_TOOLS: there is no tool {unknown[0]!r}; there are {', '.join(TOOLS)}")
    if len(set(names)) < len(names):
        raise ImproperlyConfigured(f"PAGE_TOOLS names a tool twice: {', '.join(names)}")
