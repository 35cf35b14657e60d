"""Owns the request of /v1/responses: every field, its type and its limits. Knows no model's context."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from .chat_schema import (
    Effort,
    Label,
    Limit,
    Metadata,
    ModelName,
    SchemaFormat,
    Temperature,
    TopP,
    given_of,
    thinking_of,
)
from .input_items import ITEMS_MAX, InputItem, MessageItem
from .schemas import StrictBody
from .tool_schema import TOOLS_MAX, Description, Parameters, ToolName, check_choice

#: Taken, without an effect; the answer's header X-Ignored-Fields names those that a request has.
IGNORED = (
    "include", "max_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier",
    "stream_options", "user",
)  # fmt: skip


class FunctionTool(Parameters):
    """A function, not wrapped as chat completions do it."""

    type: Literal["function"]
    name: ToolName
    description: Description | None = None
    strict: bool | None = None

    def plain(self) -> dict[str, Any]:
        """As templates know it."""
        return {"type": "function", "function": self.model_dump(exclude_none=True, exclude={"strict", "type"})}


class ChosenTool(StrictBody):
    """The function that must be called."""

    type: Literal["function"]
    name: ToolName


class TextFormat(StrictBody):
    """Text, or any JSON object."""

    type: Literal["text", "json_object"]

    def constraint(self) -> Mapping[str, Any] | None:
        """What the answer is held to."""
        return {"type": "object"} if self.type == "json_object" else None


class SchemaTextFormat(SchemaFormat):
    """JSON of a schema."""

    type: Literal["json_schema"]

    def constraint(self) -> Mapping[str, Any] | None:
        """What the answer is held to."""
        return self.schema_


class TextOptions(StrictBody):
    """What the text of an answer is to be."""

    format: Annotated[TextFormat | SchemaTextFormat, Field(discriminator="type")] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningOptions(StrictBody):
    """How much the model shall reason; summaries are not made."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


class StreamExtras(StrictBody):
    """What a stream carries besides events; nothing here."""

    include_obfuscation: bool | None = None


class ResponsesRequest(StrictBody):
    """OpenAI's responses request, as an allow-list. See IGNORED for what has no effect."""

    model: ModelName
    input: str | Annotated[list[InputItem], Field(max_length=ITEMS_MAX)]
    instructions: str | None = None
    previous_response_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    stream: bool | None = False
    background: bool | None = None
    store: bool | None = None
    max_output_tokens: Limit | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=TOOLS_MAX)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    metadata: Metadata | None = None
    truncation: Literal["disabled"] | None = None
    top_logprobs: Literal[0] | None = None
    include: Annotated[list[Literal["reasoning.encrypted_content"]], Field(max_length=1)] | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    stream_options: StreamExtras | None = None
    user: Label | None = None
    safety_identifier: Label | None = None
    prompt_cache_key: Label | None = None
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"] | None = None
    service_tier: Annotated[str, StringConstraints(max_length=64)] | None = None

    @model_validator(mode="after")
    def fits_together(self) -> "ResponsesRequest":
        """The choice names a tool that there is; what runs on its own is kept; something is asked."""
        check_choice(self.all_tools, self.choice)
        if self.background and self.store is False:
            raise ValueError("background: only with store, for the answer is fetched later")
        if not self.input:
            raise ValueError("input: at least one character or item")
        return self

    @property
    def items(self) -> list[Any]:
        """The input as items."""
        return [MessageItem(role="user", content=self.input)] if isinstance(self.input, str) else list(self.input)

    @property
    def all_tools(self) -> list[dict[str, Any]]:
        """The tools as templates know them."""
        return [tool.plain() for tool in self.tools or ()]

    @property
    def choice(self) -> str:
        """``none``, ``auto``, ``required`` or a function's name."""
        return self.tool_choice.name if isinstance(self.tool_choice, ChosenTool) else self.tool_choice or "auto"

    @property
    def one_call(self) -> bool:
        """Whether the answer may make one call only."""
        return self.parallel_tool_calls is False

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        """What the answer is held to."""
        return self.text.format.constraint() if self.text and self.text.format else None

    @property
    def wants_thinking(self) -> bool | None:
        """Whether the model shall reason; None leaves it to the model."""
        return thinking_of(self.reasoning.effort) if self.reasoning else None

    @property
    def stops(self) -> tuple[str, ...]:
        """This dialect has no stop strings."""
        return ()

    @property
    def limit_tokens(self) -> int | None:
        """The cap on the answer."""
        return self.max_output_tokens

    def sampling(self) -> dict[str, Any]:
        """The sampling parameters that were given, as engines take them."""
        return given_of(self, ("temperature", "top_p"))

    def asked(self) -> dict[str, Any]:
        """The fields that the response object repeats."""
        given = self.model_dump(exclude_none=True, by_alias=True)
        names = (
            "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "previous_response_id", "reasoning",
            "temperature", "text", "tool_choice", "top_p", "background", "store",
        )  # fmt: skip
        tools = [{"strict": None, "parameters": None, **tool} for tool in given.get("tools", [])]
        repeated = {name: given[name] for name in names if name in given}
        return {"text": {"format": {"type": "text"}}, "store": True, "background": False, **repeated, "tools": tools}
