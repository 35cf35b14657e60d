"""Owns what an engine is held to: the schema of an answer, or of a call that must be made. Does not render prompts."""

from collections.abc import Mapping, Sequence
from typing import Any

from streaming.engine.base import Engine
from streaming.protocol.markers import markers_named

from .ask import Ask, Refused

DEFINITIONS = ("$defs", "definitions")


def constraint(ask: Ask, engine: Engine, row_options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The JSON schema that the engine gets, None where the answer is free. Raises Refused."""
    if ask.json_schema is not None:
        if ask.tools:
            raise _refused("response_format", "JSON and tools exclude each other here: send tool_choice none, or text")
        return _held(engine, "response_format", "an answer of text only", ask.json_schema)
    if not ask.tools or engine.takes_tools:
        return None
    if ask.must_call:
        wanted = [tool for tool in ask.tools if ask.tool_choice in ("required", tool["function"]["name"])]
        return _held(engine, "tool_choice", "auto or none only", _schema_of_calls(wanted))
    if can_call(engine, row_options):
        return None
    if ask.run_tools:
        names = ", ".join(ask.run_tools)
        raise _refused("run_tools", f"this model has no format for tool calls; leave it out (got {names})")
    raise _refused("tools", "this model has no format for tool calls; only tool_choice required, a name, or none")


def can_call(engine: Engine, row_options: Mapping[str, Any]) -> bool:
    """Whether an engine's model may be given tools, to call them or not."""
    if engine.takes_tools:
        return True
    markers = markers_named(row_options.get("markers", "none"))
    return markers is not None and bool(markers.calls or markers.bare_calls)


def _held(engine: Engine, param: str, instead: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if not engine.can_constrain:
        raise _refused(param, f"this model's engine cannot be held to a JSON schema; {instead}")
    return schema


def _schema_of_calls(tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    definitions: dict[str, dict[str, Any]] = {}
    calls = [_schema_of_call(tool["function"], definitions) for tool in tools]
    return {**(calls[0] if len(calls) == 1 else {"anyOf": calls}), **definitions}


def _schema_of_call(function: Mapping[str, Any], definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The call's object. Definitions move up to the root, for that is where references look for them."""
    arguments = dict(function.get("parameters") or {"type": "object"})
    for keyword in DEFINITIONS:
        known = definitions.setdefault(keyword, {}) if keyword in arguments else {}
        for name, definition in arguments.pop(keyword, {}).items():
            if known.setdefault(name, definition) != definition:
                raise _refused("tools", f"two tools define {name[:64]!r} differently; let tool_choice name one of them")
    return {
        "type": "object",
        "properties": {"name": {"const": function["name"]}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _refused(param: str, message: str) -> Refused:
    return Refused(400, "invalid_request", f"{param}: {message}", param=param)
