"""Owns the turns of a request for a message: their blocks, and what they are to a chat template. Renders nothing."""

import json
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from .schemas import StrictBody
from .tool_schema import CallId


class CacheControl(StrictBody):
    """A mark for a cache; prefixes are cached here without one."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class Marked(StrictBody):
    """What may carry such a mark."""

    cache_control: CacheControl | None = None


class TextBlock(Marked):
    """Text."""

    type: Literal["text"]
    text: str
    citations: Annotated[list[Any], Field(max_length=0)] | None = None


class ThinkingBlock(StrictBody):
    """What an earlier answer thought; taken and left out, as templates do."""

    type: Literal["thinking"]
    thinking: str
    signature: str = ""


class HiddenThinkingBlock(StrictBody):
    """The same, where it cannot be read."""

    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(Marked):
    """A call that an earlier answer made."""

    type: Literal["tool_use"]
    id: CallId
    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    input: dict[str, Any]
    caller: dict[str, Any] | None = None
    toolset_name: None = None


class ToolResultBlock(Marked):
    """What a call gave."""

    type: Literal["tool_result"]
    tool_use_id: CallId
    content: str | Annotated[list[TextBlock], Field(max_length=256)] | None = None
    is_error: bool | None = None


def _kind(block: Any) -> Any:
    kind = block.get("type") if isinstance(block, dict) else getattr(block, "type", None)
    return kind if isinstance(kind, str) else None


Block = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[HiddenThinkingBlock, Tag("redacted_thinking")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")],
    Discriminator(
        _kind,
        custom_error_type="block_type",
        custom_error_message="type must be text, thinking, redacted_thinking, tool_use or tool_result",
    ),
]


class AnthropicMessage(StrictBody):
    """One turn."""

    role: Literal["user", "assistant"]
    content: str | Annotated[list[Block], Field(min_length=1, max_length=512)]

    @model_validator(mode="after")
    def fits_its_role(self) -> "AnthropicMessage":
        """Assistants think and call, users answer calls."""
        foreign = {"user": ("thinking", "redacted_thinking", "tool_use"), "assistant": ("tool_result",)}[self.role]
        for block in self.content if isinstance(self.content, list) else ():
            if block.type in foreign:
                raise ValueError(f"a turn of the {self.role} has no {block.type}")
        return self

    def turns(self) -> list[dict[str, Any]]:
        """As chat templates know it: each result of a tool is a turn of its own, before the rest."""
        if isinstance(self.content, str):
            return [{"role": self.role, "content": self.content}]
        results = [_result(block) for block in self.content if isinstance(block, ToolResultBlock)]
        texts = [block.text for block in self.content if isinstance(block, TextBlock)]
        calls = [_call(block) for block in self.content if isinstance(block, ToolUseBlock)]
        if not texts and not calls:
            return results
        turn: dict[str, Any] = {"role": self.role, "content": "".join(texts)}
        return [*results, turn | ({"tool_calls": calls} if calls else {})]


def _result(block: ToolResultBlock) -> dict[str, Any]:
    text = block.content if isinstance(block.content, str) else "".join(part.text for part in block.content or ())
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": f"Error: {text}" if block.is_error else text}


def _call(block: ToolUseBlock) -> dict[str, Any]:
    function = {"name": block.name, "arguments": json.dumps(block.input, ensure_ascii=False)}
    return {"id": block.id, "type": "function", "function": function}
