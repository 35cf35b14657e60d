"""Owns joining surrogate halves that JSON escapes spread over two texts. Knows no wire."""

REPLACEMENT = "\ufffd"


class SurrogateJoiner:
    """``\\ud83d`` in one text and ``\\ude00`` in the next are one character; a half alone is U+FFFD."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending = ""

    def push(self, text: str) -> str:
        text = self.pending + text
        self.pending = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self.pending = text[-1]
            text = text[:-1]
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def flush(self) -> str:
        """What a half that stays alone at the end becomes."""
        lone, self.pending = self.pending, ""
        return REPLACEMENT if lone else ""
