"""Owns the request of /v1/chat/completions: every field, its type and its limits. Knows no model's context."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from .chat_turns import MESSAGES_MAX, ChatMessage
from .json_schema import check_grammar, check_size
from .schemas import StrictBody
from .tool_schema import NamedTool, Tools, check_choice

STOPS_MAX = 64
STOP_CHARS = 256
LOGIT_BIAS_MAX = 300

LogitBias = Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=LOGIT_BIAS_MAX)]
Stop = Annotated[str, StringConstraints(min_length=1, max_length=STOP_CHARS)]
Label = Annotated[str, StringConstraints(max_length=512)]
Limit = Annotated[int, Field(ge=1, le=2**31)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Temperature = Annotated[float, Field(ge=0, le=2)]
TopP = Annotated[float, Field(gt=0, le=1)]
TopK = Annotated[int, Field(ge=0, le=2**31 - 1)]
Metadata = Annotated[dict[Annotated[str, StringConstraints(max_length=64)], Label], Field(max_length=16)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

#: Taken, without an effect; the answer's header X-Ignored-Fields names those that a request has.
IGNORED = (
    "metadata", "modalities", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
    "service_tier", "user", "verbosity",
)  # fmt: skip


class StreamOptions(StrictBody):
    """What a stream carries besides text."""

    include_usage: bool = False
    include_obfuscation: bool | None = None


class SchemaFormat(StrictBody):
    """The schema that an answer is held to."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "answer"
    description: Annotated[str, StringConstraints(max_length=16_384)] | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None

    @field_validator("schema_")
    @classmethod
    def bounded(cls, schema: dict[str, Any]) -> dict[str, Any]:
        """Only what an engine can make a grammar of."""
        check_size(schema)
        check_grammar(schema)
        return schema


class ResponseFormat(StrictBody):
    """Text, any JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: SchemaFormat | None = None

    @model_validator(mode="after")
    def has_its_schema(self) -> "ResponseFormat":
        """The schema where the type says that there is one."""
        if (self.json_schema is not None) != (self.type == "json_schema"):
            raise ValueError("json_schema goes with the type json_schema, and only with it")
        return self

    def constraint(self) -> Mapping[str, Any] | None:
        """What the answer is held to."""
        if self.json_schema is not None:
            return self.json_schema.schema_
        return {"type": "object"} if self.type == "json_object" else None


class TemplateArguments(StrictBody):
    """Of a chat template's variables the only one that callers may set."""

    enable_thinking: bool


class ChatRequest(StrictBody):
    """OpenAI's chat completion request, as an allow-list. See IGNORED for what has no effect."""

    model: ModelName
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MESSAGES_MAX)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_tokens: Annotated[int, Field(ge=0, le=2**31)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=STOPS_MAX)] | None = None
    logit_bias: LogitBias | None = None
    tools: Tools | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: TemplateArguments | None = None
    n: Literal[1] | None = None
    logprobs: Literal[False] | None = None
    top_logprobs: Literal[0] | None = None
    parallel_tool_calls: bool | None = None
    user: Label | None = None
    safety_identifier: Label | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    service_tier: Annotated[str, StringConstraints(max_length=64)] | None = None
    prompt_cache_key: Label | None = None
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"] | None = None
    modalities: Annotated[list[Literal["text"]], Field(max_length=1)] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None

    @field_validator("logit_bias")
    @classmethod
    def ids_are_numbers(cls, bias: dict[str, float] | None) -> dict[str, float] | None:
        """Token ids are the keys, written as decimal strings."""
        for token_id in bias or {}:
            if not (token_id.isascii() and token_id.isdigit() and len(token_id) <= 7):
                raise ValueError("keys must be token ids")
        return bias

    @model_validator(mode="after")
    def choice_fits_tools(self) -> "ChatRequest":
        """The choice names a tool that there is."""
        check_choice(self.all_tools, self.choice)
        return self

    @property
    def all_tools(self) -> list[dict[str, Any]]:
        """The tools as templates know them."""
        return [tool.plain() for tool in self.tools or ()]

    @property
    def choice(self) -> str:
        """``none``, ``auto``, ``required`` or a function's name."""
        if isinstance(self.tool_choice, NamedTool):
            return self.tool_choice.function.name
        return self.tool_choice or "auto"

    @property
    def one_call(self) -> bool:
        """Whether the answer may make one call only."""
        return self.parallel_tool_calls is False

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        """What the answer is held to."""
        return self.response_format.constraint() if self.response_format else None

    @property
    def wants_thinking(self) -> bool | None:
        """Whether the model shall reason; None leaves it to the model."""
        if self.chat_template_kwargs is not None:
            return self.chat_template_kwargs.enable_thinking
        return thinking_of(self.reasoning_effort)

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings, one or many."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def limit_tokens(self) -> int | None:
        """The cap on the answer, under its new or its old name."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def sampling(self) -> dict[str, Any]:
        """The sampling parameters that were given, as engines take them."""
        given = given_of(
            self, ("temperature", "top_p", "top_k", "min_tokens", "presence_penalty", "frequency_penalty", "seed")
        )
        if self.logit_bias:
            given["logit_bias"] = {int(token_id): bias for token_id, bias in self.logit_bias.items()}
        return given


def given_of(body: StrictBody, names: tuple[str, ...]) -> dict[str, Any]:
    """Those of a body's fields that have a value."""
    return {name: value for name in names if (value := getattr(body, name)) is not None}


def thinking_of(effort: str | None) -> bool | None:
    """Efforts that models without degrees understand: none, or some."""
    return None if effort is None else effort not in ("none", "minimal")
