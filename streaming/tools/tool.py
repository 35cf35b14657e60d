"""Owns what a tool is: its name, what a model is told of it, and the function behind it. Runs none."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any


class ToolFailed(Exception):
    """A tool has no result. The text says why, for the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call.

    ``parameters`` is the JSON schema of its arguments, an object. ``call`` gets the user's id and arguments that this
    schema has judged, and returns text for the model. It changes nothing anywhere, for after a crash it may be called
    again; it raises ToolFailed, and bears being cancelled.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[int, Mapping[str, Any]], Awaitable[str]]

    def definition(self) -> dict[str, Any]:
        """As chat templates know it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


def parameters(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of arguments with these names; others are refused."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema
