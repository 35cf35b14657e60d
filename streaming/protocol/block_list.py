"""Owns the output filter that comes with the site: words that are masked, or end the answer. Knows no setting."""

from collections.abc import Sequence

from .holdback import Holdback
from .output_filter import Ruling

MASK = "***"


class BlockList:
    """Finds words anywhere in the text, upper and lower case alike; the one that is complete first counts.

    ``ends`` ends the answer with ``content_filter`` in front of the word; else ``mask`` is shown in its place.
    """

    def __init__(self, words: Sequence[str], *, ends: bool = False, mask: str = MASK) -> None:
        self._words = [_folded(word) for word in words]
        self._ends = ends
        self._mask = "" if ends else mask
        Holdback(self._words)  # refuses what cannot be searched for
        self.window_characters = max(map(len, self._words)) - 1

    def rule(self, text: str, is_end: bool) -> Ruling | None:
        """The first word that is complete in the text."""
        search = Holdback(self._words)
        start = len(search.push(_folded(text)))
        if search.matched is None:
            return None
        return Ruling(start, start + len(search.matched), self._mask, self._ends)


def _folded(text: str) -> str:
    """Lower case, character by character, so that places stay where they are."""
    return "".join([lower if len(lower := character.lower()) == 1 else character for character in text])
