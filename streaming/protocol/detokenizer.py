"""Owns turning token ids into text step by step, whole characters only. Does not know stop strings or events."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

REPLACEMENT = "\ufffd"

#: After so many ids without a whole character they are given up: DecodeStream decodes all of them in each step.
MAX_PENDING_TOKENS = 8

#: A character has at most 4 bytes, so at most so many of the last ids can belong to one that is still open.
_OPEN_CHARACTER_TOKENS = 3

_PRIMING_TOKENS = (8, 64)


class Detokenizer:
    """One answer's ids in, its text out; the joined text equals decoding the whole sequence after the prompt.

    The prompt's tail goes in first, because some vocabularies drop the space before the first
    token that they decode. Work per token does not depend on how many came before.
    """

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int], skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._pending: list[int] = []
        self._context = self._priming_ids(prompt_ids)
        self._restart(self._context)

    @property
    def pending_tokens(self) -> int:
        """How many ids were taken that have not become text."""
        return len(self._pending)

    def step(self, token_ids: Iterable[int]) -> str:
        """Take ids and return the text that became whole."""
        return "".join([self.push(token_id) for token_id in token_ids])

    def push(self, token_id: int) -> str:
        """Take one id and return the text that became whole, mostly this token's."""
        pending = self._pending
        pending.append(token_id)
        try:
            text = self._step(self._tokenizer, token_id)
        except Exception as error:
            if not str(error).startswith("Invalid prefix"):
                raise
            return self._recover()
        if text is not None:
            self._context = pending
            self._pending = []
            return text
        return self._give_up() if len(pending) >= MAX_PENDING_TOKENS else ""

    def flush(self) -> str:
        """The end: what is left, with one U+FFFD for a character that was never completed."""
        text = self._decode(self._pending)
        self._pending = []
        whole = text.rstrip(REPLACEMENT)
        return text if whole == text else whole + REPLACEMENT

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=self._skip_special_tokens)

    def _restart(self, context: Sequence[int]) -> None:
        """A new stream that has shown ``context``, whose text must not end in U+FFFD, and waits in ``_pending``."""
        self._step = DecodeStream(context, self._skip_special_tokens).step
        for token_id in self._pending:
            self._step(self._tokenizer, token_id)

    def _priming_ids(self, prompt_ids: Sequence[int]) -> list[int]:
        """A short tail of the prompt that shows text; the ids of a character cut at its end are left out."""
        for size in _PRIMING_TOKENS:
            tail = list(prompt_ids[-size:])
            while tail and self._decode(tail).endswith(REPLACEMENT):
                tail.pop()
            if tail and self._decode(tail):
                return tail
        return []

    def _recover(self) -> str:
        """Bytes that did not fit changed how the text before them decodes; that was shown, so it stays."""
        text = self._decode(self._pending)
        self._context, self._pending = self._pending, []
        self._restart(self._context)
        return text

    def _give_up(self) -> str:
        """Show what is pending as it decodes now, except an open character at its end."""
        whole = self._decode(self._pending)
        if not whole:  # special or unknown ids: nothing to show, nothing to wait for
            self._pending = []
            self._restart(self._context)
            return ""
        text, kept = self._split(whole)
        self._context, self._pending = [], kept
        self._restart([])
        return text

    def _split(self, whole: str) -> tuple[str, list[int]]:
        """Cut the longest possible open end off the pending ids, where the cut changes nothing."""
        for size in range(_OPEN_CHARACTER_TOKENS, 0, -1):
            head, kept = self._pending[:-size], self._pending[-size:]
            text = self._decode(head)
            if text + self._decode(kept) == whole:
                return text, kept
        return whole, []
