"""Owns the turns of a chat completion's request: roles, content, calls and their results. Renders nothing."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from .schemas import StrictBody
from .tool_schema import Call, CallId

MESSAGES_MAX = 4096


class TextPart(StrictBody):
    """A part of a message's content; only text is taken. What an assistant refused is text too."""

    type: Literal["text", "refusal"]
    text: str | None = None
    refusal: str | None = None

    @model_validator(mode="after")
    def one_text(self) -> "TextPart":
        """The field that the type names."""
        if getattr(self, self.type) is None:
            raise ValueError(f"a part of type {self.type} has a field {self.type}")
        return self

    @property
    def said(self) -> str:
        """Its text, whichever it is."""
        return self.text or self.refusal or ""


class ChatMessage(StrictBody):
    """One turn of the conversation that the caller sends whole each time.

    An assistant's own fields are what an answer had: refusal and reasoning are taken and left out.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[TextPart], Field(min_length=1, max_length=256)] | None = None
    name: Annotated[str, StringConstraints(max_length=64)] | None = None
    tool_calls: Annotated[list[Call], Field(min_length=1, max_length=128)] | None = None
    tool_call_id: CallId | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    audio: None = None
    function_call: None = None

    @model_validator(mode="after")
    def fits_its_role(self) -> "ChatMessage":
        """Only assistants call, only tools answer calls, and nobody says nothing."""
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only an assistant has tool_calls")
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise ValueError("a tool's message, and only that, has a tool_call_id")
        if self.content is None and not (self.role == "assistant" and (self.tool_calls or self.refusal)):
            raise ValueError("content is required")
        return self

    def plain(self) -> dict[str, Any]:
        """The turn as chat templates know it; ``developer`` is OpenAI's newer word for ``system``."""
        content = self.content if self.content is not None else self.refusal or ""
        text = content if isinstance(content, str) else "".join(part.said for part in content)
        turn: dict[str, Any] = {"role": "system" if self.role == "developer" else self.role, "content": text}
        if self.tool_calls:
            turn["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        if self.tool_call_id is not None:
            turn["tool_call_id"] = self.tool_call_id
        return turn
