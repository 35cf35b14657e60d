"""Owns the JSON shapes of the page API: what comes in, strictly, and what goes out, field by field."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

TITLE_CHARS = 200
SYSTEM_PROMPT_CHARS = 32_000


class StrictBody(BaseModel):
    """A request body: no unknown fields, no coercion, no NaN."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


Title = Annotated[str, StringConstraints(min_length=1, max_length=TITLE_CHARS, strip_whitespace=True)]
SystemPrompt = Annotated[str, StringConstraints(max_length=SYSTEM_PROMPT_CHARS)]


class NewConversation(StrictBody):
    """``POST /api/conversations``."""

    title: Annotated[str, StringConstraints(max_length=TITLE_CHARS, strip_whitespace=True)] = ""
    system_prompt: SystemPrompt = ""


class ConversationChange(StrictBody):
    """``PATCH /api/conversations/{id}``: what is to be changed; ``pinned`` ones outlive CONVERSATION_TTL_DAYS."""

    title: Title | None = None
    pinned: bool | None = None
    system_prompt: SystemPrompt | None = None

    @model_validator(mode="after")
    def changes_something(self) -> "ConversationChange":
        """At least one of them."""
        if not self.model_dump(exclude_none=True):
            raise ValueError("send title, pinned or system_prompt")
        return self


class ResponseChange(StrictBody):
    """``PATCH /api/responses/{id}``: what its user thinks of an answer; null takes that back."""

    mark: Literal["good", "bad"] | None


class UserOut(BaseModel):
    """Who is logged in."""

    username: str
    is_staff: bool


class ModelOut(BaseModel):
    """A model on offer; ``calls_tools``: it may be given tools."""

    id: str
    context_tokens: int
    calls_tools: bool


class ModelsOut(BaseModel):
    """All models on offer."""

    data: list[ModelOut]


class ConversationOut(BaseModel):
    """A conversation in the list; ``running`` is the id of its answer that has not ended."""

    id: str
    title: str
    model: str
    updated_at: datetime
    pinned: bool
    running: str | None


class ConversationsOut(BaseModel):
    """A page of the list; ``next`` is the ``before`` of the following one."""

    data: list[ConversationOut]
    next: str | None


class ErrorOut(BaseModel):
    """Why an answer failed."""

    code: str
    message: str


class UsageOut(BaseModel):
    """Token counts of an answer."""

    prompt_tokens: int | None
    completion_tokens: int
    generated_tokens: int
    sent_tokens: int


class StopOut(BaseModel):
    """What stopping an answer took, as the cancel call said it."""

    stop_ms: float | None
    generated_tokens: int
    sent_tokens: int
    tokens_after_stop: int | None
    abort_proven: bool | None


class OutputErrorOut(BaseModel):
    """What is wrong with an answer of JSON; ``path`` is a JSON pointer to the value at fault."""

    code: str
    message: str
    path: str


class JsonOut(BaseModel):
    """An answer was held to JSON. Not ``judged``: it has not ended, or its log has expired."""

    judged: bool
    error: OutputErrorOut | None


class ResponseOut(BaseModel):
    """An answer's state; ``last_event_id`` is where a reader goes on.

    ``output`` are its items in the responses dialect where it is more than text; the message in it has no content, the
    others have ``text_before``: so many characters of the text were there when they began. ``run_tools`` are the tools
    that the site runs for it.
    ``json_answer`` is None for an answer of text. ``age_ms`` is how long ago a running one was asked for.
    """

    id: str
    state: str
    end_state: str | None
    end_reason: str | None
    finish_reason: str | None
    error: ErrorOut | None
    model: str
    usage: UsageOut
    ttft_ms: float | None
    duration_ms: float | None
    stop: StopOut | None
    last_event_id: str | None
    output: list[dict[str, Any]]
    run_tools: list[str]
    json_answer: JsonOut | None
    age_ms: float | None
    mark: str | None


class MessageOut(BaseModel):
    """One turn; an assistant's ``text`` is what is stored of the answer so far."""

    id: str
    parent: str | None
    role: str
    text: str
    created_at: datetime
    response: ResponseOut | None


class ThreadOut(BaseModel):
    """A conversation with its messages."""

    id: str
    title: str
    model: str
    system_prompt: str
    messages: list[MessageOut]


class HitOut(BaseModel):
    """Where a search found its text; ``message`` is None for a title."""

    conversation: str
    title: str
    message: str | None
    before: str
    match: str
    after: str


class HitsOut(BaseModel):
    """What a search found."""

    data: list[HitOut]
