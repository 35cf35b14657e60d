"""Owns making text storable: no NUL, no lone surrogate, cut pairs joined. Does not decode bytes or ids."""

REPLACEMENT = "\ufffd"

_HIGH = ("\ud800", "\udbff")


class CleanText:
    """Text pieces from an engine in, text that every database and UTF-8 socket takes out.

    A high surrogate at the end of a piece waits for the next one: JSON may cut an emoji there.
    """

    def __init__(self) -> None:
        self.waiting = ""

    def push(self, text: str) -> str:
        """Take a piece, return what is clean and whole."""
        if text.isascii() and not self.waiting:
            return text.replace("\0", REPLACEMENT)
        text, self.waiting = self.waiting + text, ""
        if text and _HIGH[0] <= text[-1] <= _HIGH[1]:
            text, self.waiting = text[:-1], text[-1]
        return text.replace("\0", REPLACEMENT).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def flush(self) -> str:
        """The text is over: U+FFFD for a half that never came."""
        waiting, self.waiting = self.waiting, ""
        return REPLACEMENT if waiting else ""
