"""Owns POST /api/conversations/{id}/messages: a question, or an answer made again. History comes from the database."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from streaming import ownership
from streaming.models import Conversation, Message, Response
from streaming.ownership.ask import Ask
from streaming.ownership.stop import stop
from streaming.protocol.dialects import OPENAI_RESPONSES
from streaming.store import conversations, history, responses, threads
from streaming.store.creation import KeyTaken

from .answering import attach_or_start, fingerprint, idempotency_key, policy
from .auth import caller
from .chat_schema import ResponseFormat
from .errors import ApiError
from .schemas import StrictBody
from .tool_schema import RunTools, Tools, check_choice

router = Router()

MessageId = Annotated[str, StringConstraints(max_length=40)]


class NewMessage(StrictBody):
    """New user text, ``regenerate``: the user message to answer again, or ``continues``: the answer to write on from.

    ``parent`` is the message that the text answers: null puts it at the conversation's root, beside its first one;
    without the field it goes below the newest. ``tools`` are shown when called, never run; ``run_tools`` are names of
    our own, which are run. ``response_format`` is that of chat completions.
    """

    text: Annotated[str, StringConstraints(min_length=1, max_length=400_000)] | None = None
    regenerate: MessageId | None = None
    continues: MessageId | None = None
    parent: MessageId | None = None
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    tools: Tools | None = None
    response_format: ResponseFormat | None = None
    run_tools: RunTools | None = None

    @field_validator("run_tools")
    @classmethod
    def alone(cls, names: list[str] | None, info: ValidationInfo) -> list[str] | None:
        """What is run goes on in rounds: nothing that ends an answer at its first call, or holds it to a grammar."""
        others = [name for name in ("tools", "response_format", "continues") if info.data.get(name)]
        if names and others:
            raise ValueError(f"not together with {others[0]}: leave one of them out")
        return names

    @model_validator(mode="after")
    def one_of_three(self) -> "NewMessage":
        """A question, an answer made again, or the rest of one."""
        if [self.text, self.regenerate, self.continues].count(None) != 2:
            raise ValueError("send one of text, regenerate and continues")
        check_choice(self.all_tools, "auto")
        if self.continues is not None and self.json_schema is not None:
            raise ValueError("an answer is not written on as JSON: its grammar would begin anew")
        return self

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        """What the answer is held to."""
        return self.response_format.constraint() if self.response_format else None

    @property
    def all_tools(self) -> list[dict[str, Any]]:
        """The tools as templates know them."""
        return [tool.plain() for tool in self.tools or ()]


@router.post("/conversations/{conversation_id}/messages")
async def create(request: HttpRequest, conversation_id: str, body: NewMessage) -> HttpResponse:
    """Ask, and read the answer as a stream. A running answer of the conversation is stopped first (superseded)."""
    user = caller(request).user
    conversation = await _conversation(user, conversation_id)
    parent_id = await _parent(conversation, body)
    ask = Ask(
        user_id=user.pk,
        purpose=Response.Purpose.CHAT,
        dialect=OPENAI_RESPONSES,
        stream=True,
        model=body.model or conversation.model or await _first_model(user),
        messages=(),
        policy=policy(request, f"grace={settings.PAGE_GRACE_S:g}"),
        max_tokens=body.max_tokens,
        sampling={} if body.temperature is None else {"temperature": body.temperature},
        idempotency_key=idempotency_key(request),
        tools=body.all_tools,
        run_tools=tuple(body.run_tools or ()),
        json_schema=body.json_schema,
        request_sha256=fingerprint({"conversation": conversation_id, **body.model_dump()}),
        conversation_id=conversation_id,
        question=body.text,
        parent_id=parent_id,
        continues=body.continues is not None,
        no_store=not settings.PAGE_STORE,
    )
    return await attach_or_start(request, ask, _supersede_then_read)


async def _supersede_then_read(ask: Ask) -> Ask:
    """Stop what runs, so that the history holds what was shown of it, then read the history."""
    assert ask.conversation_id
    assert ask.user_id
    running = await threads.run(responses.running_of_conversation, ask.conversation_id, ask.user_id)
    if running and ask.idempotency_key and running.idempotency_key == ask.idempotency_key:
        raise KeyTaken
    if running:
        await stop(ownership.current(), running, "superseded")
    turns = await threads.run(history.thread, ask.conversation_id, ask.parent_id, bool(ask.run_tools))
    if ask.question is not None:
        turns.append({"role": "user", "content": ask.question})
    return replace(ask, messages=turns)


async def _conversation(user: User, conversation_id: str) -> Conversation:
    try:
        return await threads.run(conversations.get, user, conversation_id)
    except Conversation.DoesNotExist:
        raise ApiError(404, "there is no such conversation", code="not_found") from None


async def _parent(conversation: Conversation, body: NewMessage) -> str | None:
    """The message below which the answer, or the question, goes."""
    if body.continues is not None:
        return await _cut_answer(conversation, body.continues)
    given, param, wanted = body.parent, "parent", Message.Role.ASSISTANT
    if body.regenerate is not None:
        given, param, wanted = body.regenerate, "regenerate", Message.Role.USER
    if given is None:
        at_root = body.regenerate is None and param in body.model_fields_set
        return None if at_root else await threads.run(history.newest, conversation.id)
    role = await threads.run(history.role_of, conversation.id, given)
    if role != wanted:
        raise ApiError(
            400,
            f"{param}: no {wanted} message of this conversation (got {given[:40]!r})",
            code="invalid_request",
            param=param,
        )
    return given


async def _cut_answer(conversation: Conversation, message_id: str) -> str:
    """The answer to write on from: one that ended before it was whole, and of which there is text."""
    answer = await threads.run(history.answer_to, message_id, conversation.id)
    why = "no answer of this conversation" if answer is None else _why_not_to_continue(answer)
    if why:
        raise ApiError(400, f"continues: {why} (got {message_id[:40]!r})", code="invalid_request", param="continues")
    return message_id


def _why_not_to_continue(answer: Response) -> str | None:
    if answer.end_state is None:
        return "that answer is still being written"
    if answer.finish_reason not in (None, "length"):
        return f"that answer is whole, it ended with {answer.finish_reason}"
    return None if answer.output_text else "nothing of that answer was shown"


async def _first_model(user: User) -> str:
    owner = ownership.current()
    allowed = await owner.quotas.allowed(user.pk, None)
    names = list(await owner.pool.on_offer())
    if not names:
        raise ApiError(503, "no engine takes requests", code="overloaded", headers={"Retry-After": "10"})
    return next(filter(allowed.has, names), names[0])
