"""Owns the page's conversation routes. The owner check is in store.conversations, in the one function that fetches."""

from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Status

from streaming import ownership
from streaming.models import Conversation, Response
from streaming.notify import CONVERSATIONS, TITLE, Change
from streaming.ownership.stop import stop
from streaming.protocol.cursor import format_event_id
from streaming.store import conversations as store
from streaming.store import responses, threads

from .auth import caller
from .errors import ApiError
from .response_body import duration_ms, stop_figures
from .schemas import (
    ConversationChange,
    ConversationOut,
    ConversationsOut,
    ErrorOut,
    JsonOut,
    MessageOut,
    NewConversation,
    OutputErrorOut,
    ResponseOut,
    StopOut,
    ThreadOut,
    UsageOut,
)

router = Router()


def _tell_pages(request: HttpRequest, kind: str, conversation_id: str) -> None:
    """The user's other pages look again."""
    ownership.current().changes.announce(caller(request).user.pk, Change(kind, conversation_id))


async def _stop_running(response_id: str, user_id: int) -> None:
    """Before a conversation goes: its running answer must not go on without a row."""
    response = await threads.run(responses.get, response_id, user_id)
    if response:
        await stop(ownership.current(), response, "deleted")


@router.get("/conversations", response=ConversationsOut)
async def list_conversations(request: HttpRequest, before: str | None = None) -> ConversationsOut:
    """A page of the user's conversations, latest first."""
    try:
        shown, following = await sync_to_async(store.page, thread_sensitive=True)(caller(request).user, before)
    except store.BadCursor as error:
        raise ApiError(400, f"before: {error}", code="invalid_request", param="before") from None
    return ConversationsOut(data=[_listed(conversation) for conversation in shown], next=following)


@router.post("/conversations", response={201: ConversationOut})
async def create_conversation(request: HttpRequest, body: NewConversation) -> Any:
    """A new, empty conversation."""
    made = await sync_to_async(store.create, thread_sensitive=True)(
        caller(request).user, body.title, body.system_prompt
    )
    _tell_pages(request, CONVERSATIONS, made.id)
    return Status(201, _listed(made))


@router.get("/conversations/{conversation_id}", response=ThreadOut)
async def get_conversation(request: HttpRequest, conversation_id: str) -> ThreadOut:
    """A conversation with all its messages and the text of its answers so far."""

    def fetch() -> tuple[Conversation, list[store.Turn]]:
        conversation = store.get(caller(request).user, conversation_id)
        return conversation, store.turns(conversation)

    conversation, turns = await _found(fetch)
    return ThreadOut(
        id=conversation.id,
        title=conversation.title,
        model=conversation.model,
        system_prompt=conversation.system_prompt,
        messages=[_message(turn) for turn in turns],
    )


@router.patch("/conversations/{conversation_id}", response=ConversationOut)
async def change_conversation(request: HttpRequest, conversation_id: str, body: ConversationChange) -> ConversationOut:
    """Set the title or the system prompt, pin or unpin."""
    changes = body.model_dump(exclude_none=True)
    changed = await _found(store.change, caller(request).user, conversation_id, changes)
    _tell_pages(request, TITLE, conversation_id)
    return _listed(changed)


@router.delete("/conversations/{conversation_id}", response={204: None})
async def delete_conversation(request: HttpRequest, conversation_id: str) -> Any:
    """Stop a running answer, then remove everything."""
    conversation = await _found(store.get, caller(request).user, conversation_id)
    if conversation.running:
        await _stop_running(conversation.running, caller(request).user.pk)
    await _found(store.delete, caller(request).user, conversation_id)
    _tell_pages(request, CONVERSATIONS, conversation_id)
    return Status(204, None)


async def _found(function: Any, *args: Any) -> Any:
    try:
        return await sync_to_async(function, thread_sensitive=True)(*args)
    except Conversation.DoesNotExist:
        raise ApiError(404, "there is no such conversation", code="not_found") from None


def _listed(conversation: Conversation) -> ConversationOut:
    return ConversationOut(
        id=conversation.id,
        title=conversation.title,
        model=conversation.model,
        updated_at=conversation.updated_at,
        pinned=conversation.pinned,
        running=getattr(conversation, "running", None),
    )


def _message(turn: store.Turn) -> MessageOut:
    return MessageOut(
        id=turn.message.id,
        parent=turn.message.parent_id,
        role=turn.message.role,
        text=turn.text,
        created_at=turn.message.created_at,
        response=_response(turn.response, turn) if turn.response else None,
    )


def _response(response: Response, turn: store.Turn) -> ResponseOut:
    figures = stop_figures(response)
    return ResponseOut(
        id=response.id,
        state=response.state,
        end_state=response.end_state,
        end_reason=response.end_reason or None,
        finish_reason=response.finish_reason,
        error=ErrorOut(code=response.error_code, message=response.error_message) if response.error_code else None,
        model=response.model,
        usage=UsageOut(
            prompt_tokens=response.prompt_tokens,
            completion_tokens=response.completion_tokens,
            generated_tokens=response.generated_tokens,
            sent_tokens=response.sent_tokens,
        ),
        ttft_ms=response.ttft_ms,
        duration_ms=duration_ms(response),
        stop=StopOut(**figures) if figures else None,
        last_event_id=format_event_id(response.id, *turn.position) if turn.position else None,
        output=turn.output,
        run_tools=response.run_tools,
        json_answer=_json(turn),
        mark=response.mark,
        age_ms=None if response.end_state else max(0.0, (timezone.now() - response.created_at).total_seconds() * 1000),
    )


def _json(turn: store.Turn) -> JsonOut | None:
    if turn.json is None:
        return None
    error = turn.json.error
    return JsonOut(judged=turn.json.judged, error=OutputErrorOut(**error) if error else None)
