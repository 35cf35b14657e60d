"""Owns keeping back text that may become a stop string, and cutting at the first that does. Does not know tokens."""

import re
from collections.abc import Sequence
from functools import lru_cache

from .stop_automaton import StopAutomaton

MAX_STOPS = 64
MAX_STOP_CHARACTERS = 256

#: An automaton is never changed once it is made, and the same few sets are asked for over and over.
_automaton = lru_cache(maxsize=32)(StopAutomaton)


class Holdback:
    """Text in, text that is safe to show out. The stop string that is complete first wins.

    Of several that end at one character the longest wins. So the result does not depend on how
    the text was cut, and what is kept back is never more than what can still become a stop string.
    """

    def __init__(self, stops: Sequence[str], include_stop: bool = False) -> None:
        if not 0 < len(stops) <= MAX_STOPS or not all(0 < len(stop) <= MAX_STOP_CHARACTERS for stop in stops):
            raise ValueError(f"1 to {MAX_STOPS} stop strings of 1 to {MAX_STOP_CHARACTERS} characters")
        self.matched: str | None = None
        #: What came behind the matched stop string in the same push.
        self.rest = ""
        self._include_stop = include_stop
        self._automaton = _automaton(tuple(stops))
        self._state = 0
        self._kept = ""
        first_characters = "".join(sorted({stop[0] for stop in stops}))
        self._find_first = re.compile(f"[{re.escape(first_characters)}]").search

    def push(self, text: str) -> str:
        """Take text, return what is safe to show now; nothing more after a match."""
        if self._state == 0:
            if self.matched is not None:
                return ""
            if self._find_first(text) is None:
                return text
        match_end = self._walk(text)
        whole = self._kept + text
        if match_end:
            return self._cut(whole, len(self._kept) + match_end)
        hold = self._automaton.hold[self._state]
        self._kept = whole[len(whole) - hold :]
        return whole[: len(whole) - hold]

    def release(self) -> str:
        """The text is over: give back what was kept. Nothing of a matched stop string."""
        kept, self._kept, self._state = self._kept, "", 0
        return kept

    def _walk(self, text: str) -> int:
        """Move the state over the text; the position after the character that completed a match, else 0."""
        automaton = self._automaton
        next_character, branches, fail = automaton.next_character, automaton.branches, automaton.fail
        match_length, find_first = automaton.match_length, self._find_first
        state, position, size = self._state, 0, len(text)
        while position < size:
            if state == 0:
                found = find_first(text, position)
                if found is None:
                    break
                position = found.start()
            character = text[position]
            if next_character[state] == character:
                state += 1
            else:
                branch = branches.get((state, character))
                if branch is None:
                    state = fail[state]  # and try the same character from there
                    continue
                state = branch
            position += 1
            if state in match_length:
                self._state = state
                return position
        self._state = state
        return 0

    def _cut(self, whole: str, end: int) -> str:
        start = end - self._automaton.match_length[self._state]
        self.matched, self.rest = whole[start:end], whole[end:]
        self._kept, self._state = "", 0
        return whole[: end if self._include_stop else start]
