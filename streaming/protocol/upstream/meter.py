"""Owns how many tokens an answer has by now, from an upstream's reports or, where there are none, from a guess."""

#: Few tokens are longer in the long run. The report puts a guess right that was too low, not one that was too high.
CHARACTERS_A_TOKEN = 5


class Meter:
    """Its counts add up to the last report. Guesses stay below ``max_tokens``: they may not end an answer."""

    def __init__(self, max_tokens: int | None = None):
        self._most = None if max_tokens is None else max(0, max_tokens - 1)
        self._reported = self._counted = 0
        self._pieces = self._characters = 0

    def guess(self, characters: int) -> int:
        """The tokens to count for a piece of this length: one, or more where pieces are long."""
        self._pieces += 1
        self._characters += characters
        total = self._reported + max(self._pieces, self._characters // CHARACTERS_A_TOKEN)
        return self._rise_to(total if self._most is None else min(total, self._most))

    def report(self, total_tokens: int) -> int:
        """The tokens to count now that the upstream says how many there were since the answer began."""
        self._reported = max(self._counted, total_tokens)
        self._pieces = self._characters = 0
        return self._rise_to(total_tokens)

    def _rise_to(self, total: int) -> int:
        step = max(0, total - self._counted)
        self._counted += step
        return step
