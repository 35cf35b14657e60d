"""Owns the automaton that finds stop strings in text (Aho-Corasick). Does not hold text or decide what is shown."""

from collections.abc import Sequence

_ROOT = 0
_NO_CHARACTER = ""


class StopAutomaton:
    """A state is the longest suffix of the text so far that is the beginning of a stop string.

    States are numbered along each string, so nearly every state has one child, its own number + 1,
    entered by ``next_character[state]``; only the others are in ``branches``. So 64 strings of 256
    characters take some hundred KB, not some MB, and one request's stop strings are no burden.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.next_character = [_NO_CHARACTER]
        self.branches: dict[tuple[int, str], int] = {}
        #: Where to go on when no child fits: the longest shorter suffix.
        self.fail: list[int]
        #: States in which a stop string has just ended, with the length of the longest that did.
        self.match_length: dict[int, int] = {}
        #: How many characters must be kept back in a state.
        self.hold: list[int]
        self._edges: list[tuple[int, str]] = [(_ROOT, _NO_CHARACTER)]
        self._depth = [0]
        ends = {self._insert(stop) for stop in stops}
        self._link(ends)
        self._set_hold(ends)

    def child(self, state: int, character: str) -> int | None:
        """The state after one more character of the same beginning, None when no stop string goes on so."""
        if self.next_character[state] == character:
            return state + 1
        return self.branches.get((state, character))

    def _insert(self, stop: str) -> int:
        state = _ROOT
        for character in stop:
            child = self.child(state, character)
            state = self._add(state, character) if child is None else child
        return state

    def _add(self, state: int, character: str) -> int:
        added = len(self.next_character)
        if added == state + 1:
            self.next_character[state] = character
        else:
            self.branches[state, character] = added
        self.next_character.append(_NO_CHARACTER)
        self._edges.append((state, character))
        self._depth.append(self._depth[state] + 1)
        return added

    def _link(self, ends: set[int]) -> None:
        """Set fail links and matches, shorter beginnings first: a fail link always leads to a shorter one."""
        self.fail = [_ROOT] * len(self._edges)
        self._by_depth = sorted(range(1, len(self._edges)), key=self._depth.__getitem__)
        for state in self._by_depth:
            fail = self.fail[state] = self._longest_suffix(state)
            if state in ends:
                self.match_length[state] = self._depth[state]
            elif fail in self.match_length:
                self.match_length[state] = self.match_length[fail]

    def _longest_suffix(self, state: int) -> int:
        parent, character = self._edges[state]
        while parent != _ROOT:
            parent = self.fail[parent]
            child = self.child(parent, character)
            if child is not None:
                return child
        return _ROOT

    def _set_hold(self, ends: set[int]) -> None:
        """Keep back only what can still become a stop string before another one ends inside it."""
        useful = set()
        for state in reversed(self._by_depth):
            if state in ends or (state in useful and state not in self.match_length):
                useful.add(self._edges[state][0])
        self.hold = [0] * len(self._edges)
        for state in self._by_depth:
            self.hold[state] = self._depth[state] if state in useful else self.hold[self.fail[state]]
