"""Owns the input items of /v1/responses: their shapes, and the turns that they are. Keeps nothing."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from .schemas import StrictBody
from .tool_schema import CallId

ITEMS_MAX = 4096
PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}

ItemId = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Status = Literal["in_progress", "completed", "incomplete"]


class ContentPart(StrictBody):
    """A part of a message, as it is sent or as an answer had it; only text is taken."""

    type: Literal["input_text", "output_text", "text", "refusal"]
    text: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None

    @model_validator(mode="after")
    def one_text(self) -> "ContentPart":
        """The field that the type names."""
        if (self.refusal if self.type == "refusal" else self.text) is None:
            raise ValueError(f"a part of type {self.type} has its text")
        return self


Parts = Annotated[list[ContentPart], Field(max_length=256)]


class MessageItem(StrictBody):
    """A turn of somebody."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Parts
    id: ItemId | None = None
    status: Status | None = None
    phase: str | None = None


class CallItem(StrictBody):
    """A call that an earlier answer made."""

    type: Literal["function_call"]
    call_id: CallId
    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    arguments: str
    id: ItemId | None = None
    status: Status | None = None
    error: str | None = None


class OutputItem(StrictBody):
    """What a call gave."""

    type: Literal["function_call_output"]
    call_id: CallId
    output: str | Parts
    id: ItemId | None = None
    status: Status | None = None


class ReasoningItem(StrictBody):
    """What an earlier answer thought; taken and left out, as templates do."""

    type: Literal["reasoning"]
    id: ItemId | None = None
    summary: list[Any] | None = None
    content: list[Any] | None = None
    encrypted_content: str | None = None
    status: Status | None = None


def _kind(item: Any) -> Any:
    kind = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", None)
    return kind if isinstance(kind, str) else None


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[OutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(
        _kind,
        custom_error_type="item_type",
        custom_error_message="type must be message, function_call, function_call_output or reasoning",
    ),
]


def turns_of(items: Iterable[Any]) -> list[dict[str, Any]]:
    """The items as turns of a chat: a call belongs to the assistant's turn before it."""
    turns: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, CallItem):
            _add_call(turns, item)
        elif isinstance(item, OutputItem):
            turns.append({"role": "tool", "tool_call_id": item.call_id, "content": _text(item.output)})
        elif isinstance(item, MessageItem):
            role = "system" if item.role == "developer" else item.role
            turns.append({"role": role, "content": _text(item.content)})
    return turns


def _add_call(turns: list[dict[str, Any]], item: CallItem) -> None:
    if not turns or turns[-1]["role"] != "assistant":
        turns.append({"role": "assistant", "content": ""})
    function = {"name": item.name, "arguments": item.arguments}
    turns[-1].setdefault("tool_calls", []).append({"id": item.call_id, "type": "function", "function": function})


def listed(items: Iterable[dict[str, Any]], suffix: str) -> list[dict[str, Any]]:
    """Kept items as they are given back: each with an id, messages in parts."""
    return [_listed(item, f"in_{suffix}_{index}") for index, item in enumerate(items)]


def _listed(item: dict[str, Any], suffix: str) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item["role"] == "assistant" else "input_text"
        part = {"type": kind, "text": content, **({"annotations": []} if kind == "output_text" else {})}
        item = {**item, "content": [part]}
    return {"id": f"{PREFIXES[item['type']]}_{suffix}", "status": "completed", **item}


def _text(content: str | list[ContentPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text or part.refusal or "" for part in content)
