"""Owns the hook that sees an answer before anybody else: what it may decide, and the window it looks through."""

from typing import NamedTuple, Protocol

CONTENT_FILTER = "content_filter"


class Ruling(NamedTuple):
    """What a filter decides on the text it is shown: of the characters from ``start`` to ``end``, ``text`` is left.

    With ``ends`` nothing behind ``start`` but ``text`` is shown, and the answer is over.
    """

    start: int
    end: int
    text: str = ""
    ends: bool = False


class OutputFilter(Protocol):
    """Looks at text that was not shown yet. It keeps no state: one filter serves many answers.

    ``window_characters`` is how much is kept back so that what is cut over deltas is seen as a whole:
    the longest text it can object to, less one character.
    """

    window_characters: int

    def rule(self, text: str, is_end: bool) -> Ruling | None:
        """None lets the text pass. After a replacement it is asked again about what follows that."""


class FilterWindow:
    """One answer's text on its way through a filter.

    What was shown, and what a ruling has put in its place, is settled and never looked at again. For a
    filter that rules on whatever is complete first, how the text is cut changes nothing.
    """

    def __init__(self, output_filter: OutputFilter) -> None:
        self.ended = False
        self._filter = output_filter
        self._kept = ""

    def push(self, text: str) -> str:
        """Take text, return what may be shown now; nothing more once the filter has ended the answer."""
        return self._pass(text, is_end=False)

    def release(self) -> str:
        """The text is over, or another kind of text follows: the filter's last look at what was kept."""
        return self._pass("", is_end=True)

    def _pass(self, text: str, is_end: bool) -> str:
        waiting, self._kept = self._kept + text, ""
        shown = ""
        while waiting and not self.ended:
            ruling = self._filter.rule(waiting, is_end)
            if ruling is None:
                keep = 0 if is_end else min(len(waiting), self._filter.window_characters)
                self._kept = waiting[len(waiting) - keep :]
                return shown + waiting[: len(waiting) - keep]
            assert 0 <= ruling.start < ruling.end <= len(waiting), "a ruling covers a part of the text it was shown"
            shown += waiting[: ruling.start] + ruling.text
            waiting, self.ended = waiting[ruling.end :], ruling.ends
        return shown
