"""Owns what a reply to a line of a batch means for the line, and how long to wait. Asks nothing, stores nothing."""

import random
from enum import Enum, auto

from .own_api import Reply

#: Refusals that say something of the key, and so of every line.
RIGHTS = frozenset({"key_expired", "key_revoked", "scope"})
#: A fault of the server's that is met so often is the line's answer.
FAULTS_MAX = 5
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
JITTER = 1.25


class Meaning(Enum):
    """What becomes of the line."""

    ANSWERED = auto()
    REFUSED = auto()  # for good: the refusal is its answer
    AGAIN = auto()  # the same request, later: it meets what there is of it
    ANEW = auto()  # a request of another key, later: the engine was never asked by this one
    NO_RIGHT = auto()  # nothing more may be asked by this key


def meaning_of(reply: Reply, faults: int) -> Meaning:
    """Of a reply, after so many others that were the server's fault."""
    status, error = reply.status, reply.error
    if status == 200:
        return Meaning.ANSWERED
    if status in (401, 403) and error.get("code") in RIGHTS:
        return Meaning.NO_RIGHT
    if "end_state" in error:
        return Meaning.ANEW if error.get("end_reason") == "queue" else Meaning.REFUSED
    # 401: the site does not know our own token, for clocks differ or a secret does. Without Retry-After a limit will
    # never allow it.
    if status in (401, 408, 503, 529) or (status == 429 and "Retry-After" in reply.headers):
        return Meaning.AGAIN
    return Meaning.AGAIN if status >= 500 and faults < FAULTS_MAX else Meaning.REFUSED


def pause_s(reply: Reply | None, tries: int) -> float:
    """Until the next try: as the reply says, and longer each time; no two alike. None is no reply at all."""
    said = reply.headers.get("Retry-After", "") if reply else ""
    grows_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(tries, 10))
    least_s = max(float(said), grows_s) if said.isascii() and said.isdigit() else grows_s
    return least_s * random.uniform(1.0, JITTER)
