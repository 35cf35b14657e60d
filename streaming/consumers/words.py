"""Owns what a page may say on its socket, how often, and why sockets close. Pure: time comes in."""

import json
import re
from dataclasses import dataclass, field

#: Close codes. A page reconnects after RESTARTING at once, after FULL and TOO_FAST late, after SIGNED_OUT never.
BROKEN = 1011
RESTARTING = 1012
AWAY = 1013
BAD_MESSAGE = 4400
SIGNED_OUT = 4401
FULL = 4429
TOO_FAST = 4430

MESSAGE_CHARS = 200
#: A burst, and what is earned back each second.
BURST_MESSAGES = 20
MESSAGES_PER_S = 2.0

_RESPONSE_ID = re.compile(r"resp_[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)


class BadMessage(ValueError):
    """Nothing that a page of ours says; the text is for the close frame."""


#: Stop a response; nobody looks at it on this page, which has its stream closed, but reads it; it does not, or by a
#: stream again.
STOP = "stop"
READING = "reading"
NOT_READING = "not_reading"
KINDS = (STOP, READING, NOT_READING)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page says: one of KINDS, of a response of its user."""

    kind: str
    response_id: str


def parse(text: str | None) -> Asked:
    """A message as it came; None for one of bytes. Raises BadMessage."""
    if text is None:
        raise BadMessage("messages are text")
    if len(text) > MESSAGE_CHARS:
        raise BadMessage(f"a message has at most {MESSAGE_CHARS} characters, not {len(text)}")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise BadMessage("messages are JSON") from None
    if not isinstance(message, dict) or message.keys() != {"type", "response"} or message["type"] not in KINDS:
        raise BadMessage(f'a message is {{"type", "response"}}, its type one of {", ".join(KINDS)}')
    response_id = message["response"]
    if not isinstance(response_id, str) or not _RESPONSE_ID.fullmatch(response_id):
        raise BadMessage("response: not the id of a response")
    return Asked(message["type"], response_id)


@dataclass(slots=True)
class Allowance:
    """How many messages a socket may still send."""

    since_s: float
    left: float = field(default=BURST_MESSAGES)

    def takes(self, now_s: float) -> bool:
        """One more came; whether it may."""
        self.left = min(BURST_MESSAGES, self.left + (now_s - self.since_s) * MESSAGES_PER_S)
        self.since_s = now_s
        self.left -= 1
        return self.left >= 0
