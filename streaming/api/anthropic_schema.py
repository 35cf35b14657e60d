"""Owns the request of /v1/messages: every field, its type and its limits. Knows no model's context."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from .anthropic_turns import AnthropicMessage, CacheControl, Marked, TextBlock
from .chat_schema import (
    STOPS_MAX,
    Limit,
    ModelName,
    Stop,
    TopK,
    TopP,
    given_of,
)
from .chat_turns import MESSAGES_MAX
from .json_schema import check_grammar, check_size
from .schemas import StrictBody
from .tool_schema import TOOLS_MAX, Description, ToolName, check_choice

#: Taken, without an effect; the answer's header X-Ignored-Fields names those that a request has.
IGNORED = ("cache_control", "metadata", "service_tier")


class AnthropicTool(Marked):
    """A function; tools of theirs do not exist here."""

    type: Literal["custom"] | None = None
    name: ToolName
    description: Description | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None

    @model_validator(mode="after")
    def bounded(self) -> "AnthropicTool":
        """Not larger than what anybody writes by hand."""
        check_size(self.input_schema)
        return self

    def plain(self) -> dict[str, Any]:
        """As templates know it."""
        described = {"description": self.description} if self.description else {}
        return {"type": "function", "function": {"name": self.name, **described, "parameters": self.input_schema}}


class Choice(StrictBody):
    """Which tools may or must be called, and whether one call is all."""

    type: Literal["auto", "any", "tool", "none"]
    name: ToolName | None = None
    disable_parallel_tool_use: bool | None = None

    @model_validator(mode="after")
    def names_a_tool(self) -> "Choice":
        """The name where the type asks for one."""
        if (self.name is not None) != (self.type == "tool"):
            raise ValueError("name goes with the type tool, and only with it")
        return self


class Thinking(StrictBody):
    """Whether the model shall reason. The budget is taken and ignored: models here have none."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=1)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(StrictBody):
    """JSON of a schema."""

    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]

    @model_validator(mode="after")
    def bounded(self) -> "OutputFormat":
        """Only what an engine can make a grammar of."""
        check_size(self.schema_)
        check_grammar(self.schema_)
        return self


class OutputConfig(StrictBody):
    """What the answer is to be. Effort is taken and ignored."""

    format: OutputFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Sender(StrictBody):
    """Who it is for; taken and ignored."""

    user_id: Annotated[str, StringConstraints(max_length=512)] | None = None


class CountRequest(StrictBody):
    """What counts towards the prompt of a message."""

    model: ModelName
    messages: Annotated[list[AnthropicMessage], Field(min_length=1, max_length=MESSAGES_MAX)]
    system: str | Annotated[list[TextBlock], Field(max_length=256)] | None = None
    tools: Annotated[list[AnthropicTool], Field(max_length=TOOLS_MAX)] | None = None
    tool_choice: Choice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl | None = None

    @model_validator(mode="after")
    def choice_fits_tools(self) -> "CountRequest":
        """The choice names a tool that there is."""
        check_choice(self.all_tools, self.choice)
        return self

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The system prompt and the messages as chat templates know them."""
        return [*_system(self.system), *(turn for message in self.messages for turn in message.turns())]

    @property
    def all_tools(self) -> list[dict[str, Any]]:
        """The tools as templates know them."""
        return [tool.plain() for tool in self.tools or ()]

    @property
    def choice(self) -> str:
        """``none``, ``auto``, ``required`` or a function's name."""
        if self.tool_choice is None:
            return "auto"
        return self.tool_choice.name or {"any": "required"}.get(self.tool_choice.type, self.tool_choice.type)

    @property
    def one_call(self) -> bool:
        """Whether the answer may make one call only."""
        return bool(self.tool_choice and self.tool_choice.disable_parallel_tool_use)

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        """What the answer is held to."""
        return self.output_config.format.schema_ if self.output_config and self.output_config.format else None

    @property
    def wants_thinking(self) -> bool | None:
        """Whether the model shall reason; None leaves it to the model."""
        if self.thinking is None or self.thinking.type == "adaptive":
            return None
        return self.thinking.type == "enabled"


class AnthropicRequest(CountRequest):
    """Anthropic's messages request, as an allow-list. See IGNORED for what has no effect."""

    max_tokens: Limit
    stream: bool | None = False
    stop_sequences: Annotated[list[Stop], Field(max_length=STOPS_MAX)] | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    metadata: Sender | None = None
    service_tier: Literal["auto", "standard_only"] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return tuple(self.stop_sequences or ())

    @property
    def limit_tokens(self) -> int | None:
        """The cap on the answer."""
        return self.max_tokens

    def sampling(self) -> dict[str, Any]:
        """The sampling parameters that were given, as engines take them."""
        return given_of(self, ("temperature", "top_p", "top_k"))


def _system(system: str | Sequence[TextBlock] | None) -> list[dict[str, Any]]:
    text = system if isinstance(system, str) else "\n\n".join(block.text for block in system or ())
    return [{"role": "system", "content": text}] if text else []
