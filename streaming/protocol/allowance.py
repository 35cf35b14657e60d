"""Owns how many bytes one answer may hold, whatever its engine sends. Does not know what they are, or who is told."""

import sys

#: What an output item, a call or a run of reasoning, costs each of its readers beside its text.
ITEM_BYTES = 1024


def text_bytes(text: str) -> int:
    """At most what a text takes in memory, and about what it takes elsewhere; its length where it is ASCII."""
    return len(text) if text.isascii() else 4 * len(text)


class Allowance:
    """Of one answer, with all its rounds. ``bytes_max`` None is no limit."""

    def __init__(self, bytes_max: int | None = None) -> None:
        self._left_bytes = sys.maxsize if bytes_max is None else bytes_max

    @property
    def is_used_up(self) -> bool:
        """Whether something was too much: nothing more becomes part of the answer."""
        return self._left_bytes < 0

    def takes(self, size_bytes: int) -> bool:
        """Whether so much more may be part of the answer. What is too much ends it: nothing smaller is taken later."""
        if self._left_bytes >= 0:
            self._left_bytes -= size_bytes
        return self._left_bytes >= 0
