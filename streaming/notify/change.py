"""Owns what a user's open pages are told: kinds and ids, never a word of what was said. Sends nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

#: The list of conversations is another: one was made, renamed by hand or deleted, or something may have been missed.
CONVERSATIONS = "conversations"
#: A conversation has another title.
TITLE = "title"
#: A response of the conversation waits for an engine or runs; has ended.
STARTED = "response.started"
ENDED = "response.ended"
#: A session of the user ended: everybody looks whether it was theirs.
SIGNED_OUT = "signed_out"

KINDS = frozenset({CONVERSATIONS, TITLE, STARTED, ENDED, SIGNED_OUT})


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to look at again."""

    kind: str
    conversation: str | None = None
    response: str | None = None

    def to_message(self) -> dict[str, Any]:
        """As JSON for a page, and for other processes; what is not there is left out."""
        fields = {"type": self.kind, "conversation": self.conversation, "response": self.response}
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """What another process sent. Raises ValueError or KeyError for what is none of ours."""
        if message["type"] not in KINDS:
            raise ValueError(f"no kind of change: {message['type']!r}")
        return cls(message["type"], message.get("conversation"), message.get("response"))
