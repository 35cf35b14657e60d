"""Owns reading the thread above a message as the model gets it. Does not cut it to a context."""

from streaming.models import Conversation, Message, Response

Turn = dict[str, str]


def thread(conversation_id: str, leaf_id: str | None) -> list[Turn]:
    """The turns from the conversation's system prompt down to ``leaf_id``, as role and content.

    An answer's content is what is stored of it, also when it was stopped or cut off. Empty ones are left out; one that
    goes on from another is one turn with it. Raises ObjectDoesNotExist when the conversation was deleted meanwhile.
    """
    rows = Message.objects.filter(conversation_id=conversation_id).select_related("response")
    by_id = {message.id: message for message in rows}
    turns: list[Turn] = []
    while leaf_id:
        message = by_id.get(leaf_id)
        if message is None:
            raise Message.DoesNotExist
        content = message.text if message.role == Message.Role.USER else _answer(message)
        if turns and message.role == turns[-1]["role"] == Message.Role.ASSISTANT:
            turns[-1]["content"] = content + turns[-1]["content"]
        elif content:
            turns.append({"role": message.role, "content": content})
        leaf_id = message.parent_id
    system_prompt = Conversation.objects.values_list("system_prompt", flat=True).get(id=conversation_id)
    return [*([{"role": "system", "content": system_prompt}] if system_prompt else []), *turns[::-1]]


def _answer(message: Message) -> str:
    response = getattr(message, "response", None)
    return response.output_text if response else ""


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
