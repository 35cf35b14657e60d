"""Owns the request of /v1/chat/completions: every field, its type and its limits. Knows no model's context."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator

from .schemas import StrictBody

MESSAGES_MAX = 4096
STOPS_MAX = 64
STOP_CHARS = 256
LOGIT_BIAS_MAX = 300

LogitBias = Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=LOGIT_BIAS_MAX)]
Stop = Annotated[str, StringConstraints(min_length=1, max_length=STOP_CHARS)]


class TextPart(StrictBody):
    """A part of a message's content; only text is taken."""

    type: Literal["text"]
    text: str


class ChatMessage(StrictBody):
    """One turn of the conversation that the caller sends whole each time."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(min_length=1, max_length=256)]
    name: Annotated[str, StringConstraints(max_length=64)] | None = None

    def plain(self) -> dict[str, Any]:
        """The turn as chat templates know it; ``developer`` is OpenAI's newer word for ``system``."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class StreamOptions(StrictBody):
    """What a stream carries besides text."""

    include_usage: bool = False
    include_obfuscation: bool | None = None


class ChatRequest(StrictBody):
    """OpenAI's chat completion request, as an allow-list.

    Taken and ignored: user, metadata, store, service_tier, parallel_tool_calls, include_obfuscation.
    """

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MESSAGES_MAX)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=STOPS_MAX)] | None = None
    logit_bias: LogitBias | None = None
    n: Literal[1] | None = None
    logprobs: Literal[False] | None = None
    top_logprobs: Literal[0] | None = None
    user: Annotated[str, StringConstraints(max_length=512)] | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    store: bool | None = None
    service_tier: Annotated[str, StringConstraints(max_length=64)] | None = None
    parallel_tool_calls: bool | None = None

    @field_validator("logit_bias")
    @classmethod
    def ids_are_numbers(cls, bias: dict[str, float] | None) -> dict[str, float] | None:
        """Token ids are the keys, written as decimal strings."""
        for token_id in bias or {}:
            if not (token_id.isascii() and token_id.isdigit() and len(token_id) <= 7):
                raise ValueError("keys must be token ids")
        return bias

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
        names = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.logit_bias:
            given["logit_bias"] = {int(token_id): bias for token_id, bias in self.logit_bias.items()}
        return given
