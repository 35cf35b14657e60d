"""Owns reading the thread above a message as the model gets it. Does not cut it to a context."""

from typing import Any

from streaming.models import Conversation, Message, Response

from . import rounds

#: As chat templates know it: role and content; of an answer also its calls, of a result the call that it belongs to.
Turn = dict[str, Any]


def thread(conversation_id: str, leaf_id: str | None, with_results: bool = False) -> list[Turn]:
    """The turns from the conversation's system prompt down to ``leaf_id``; in three queries at most.

    An answer's content is what is stored of it, also when it was stopped or cut off. Empty ones are left out; one that
    goes on from another is one turn with it. ``with_results`` tells also which of our tools were called, and what they
    gave: for an answer that may call them, for some engines refuse calls in a request that has no tools.
    Raises ObjectDoesNotExist when the conversation was deleted meanwhile.
    """
    path = _path(conversation_id, leaf_id)
    answers = [response for message in path if (response := getattr(message, "response", None))]
    called = rounds.turns_of(answers) if with_results else {}
    system_prompt = Conversation.objects.values_list("system_prompt", flat=True).get(id=conversation_id)
    turns: list[Turn] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    for message in path:
        for turn in _turns(message, called):
            _append(turns, turn)
    return turns


def _path(conversation_id: str, leaf_id: str | None) -> list[Message]:
    """The messages down to the leaf."""
    rows = Message.objects.filter(conversation_id=conversation_id).select_related("response")
    by_id = {message.id: message for message in rows}
    path: list[Message] = []
    while leaf_id:
        if leaf_id not in by_id:
            raise Message.DoesNotExist
        path.append(by_id[leaf_id])
        leaf_id = path[-1].parent_id
    return path[::-1]


def _turns(message: Message, called: dict[str, list[Turn]]) -> list[Turn]:
    response: Response | None = getattr(message, "response", None)
    if response is not None and response.id in called:
        return called[response.id]
    content = message.text if message.role == Message.Role.USER else response.output_text if response else ""
    return [{"role": message.role, "content": content}]


def _append(turns: list[Turn], turn: Turn) -> None:
    before = turns[-1] if turns else {}
    if before.get("role") == turn["role"] == Message.Role.ASSISTANT and "tool_calls" not in before:
        turns[-1] = {**turn, "content": before["content"] + turn["content"]}
    elif turn["content"] or "tool_calls" in turn:
        turns.append(turn)


def answer_to(message_id: str, conversation_id: str) -> Response | None:
    """The response of an assistant's message of the conversation."""
    return Response.objects.filter(message_id=message_id, conversation_id=conversation_id).first()


def role_of(conversation_id: str, message_id: str) -> str | None:
    """The role of a message of the conversation; None when it has no such message."""
    return Message.objects.filter(id=message_id, conversation_id=conversation_id).values_list("role", flat=True).first()


def newest(conversation_id: str) -> str | None:
    """The id of the conversation's latest message."""
    row = Message.objects.filter(conversation_id=conversation_id).order_by("-id").values_list("id", flat=True)
    return row.first()
