"""Owns turning token ids into text step by step, whole characters only. Does not know stop strings or events."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

REPLACEMENT = "\ufffd"

#: After so many ids without a whole character the oldest are let go: DecodeStream decodes all of them in each step.
MAX_PENDING_TOKENS = 8

#: A character has at most 4 bytes, so at most so many of the last ids can belong to one that is still open.
_OPEN_CHARACTER_TOKENS = 3

_PRIMING_TOKENS = (8, 64)


class Detokenizer:
    """One answer's ids in, its text out; the joined text equals decoding the whole sequence after the prompt.

    The prompt's tail goes in first, because some vocabularies drop the space before the first
    token that they decode. Work per token does not depend on how many came before.

    DecodeStream gives nothing while the last character is open, though tokens may end one
    character and begin the next over and over; what is whole before it is shown here at once.
    """

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int], skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._context = self._priming_ids(prompt_ids)
        #: Ids whose text DecodeStream has not given yet, and how many characters of it were shown all the same.
        self._pending: list[int] = []
        self._shown_early = 0
        self._restart(self._context)

    @property
    def pending_tokens(self) -> int:
        """How many ids wait for a character to become whole."""
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
        if text is None:
            return self._open_end()
        self._context = pending
        self._pending = []
        if self._shown_early:
            text, self._shown_early = text[self._shown_early :], 0
        return text

    def flush(self) -> str:
        """The end: what is left, with one U+FFFD for a character that was never completed."""
        text = self._take_pending()
        whole = text.rstrip(REPLACEMENT)
        return text if whole == text else whole + REPLACEMENT

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=self._skip_special_tokens)

    def _take_pending(self) -> str:
        text = self._decode(self._pending)[self._shown_early :]
        self._pending, self._shown_early = [], 0
        return text

    def _restart(self, context: Sequence[int]) -> None:
        """A new stream that has shown ``context``, whose text must not end in U+FFFD, and waits in ``_pending``."""
        self._step = DecodeStream(context, self._skip_special_tokens).step
        if self._pending:
            self._step(self._tokenizer, self._pending)

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
        self._context = self._pending
        text = self._take_pending()
        self._restart(self._context)
        return text

    def _open_end(self) -> str:
        """The whole characters before an open one; after too many ids, all that no later id can change."""
        if len(self._pending) >= MAX_PENDING_TOKENS:
            self._drop_silent()
        text, shown = self._decode(self._pending), self._shown_early
        if len(self._pending) < MAX_PENDING_TOKENS:
            whole = text.rstrip(REPLACEMENT)
            self._shown_early = max(shown, len(whole))
            return whole[shown:]
        settled = self._shorten(text)
        self._restart([])
        return text[shown:settled]

    def _drop_silent(self) -> None:
        """Special and unknown ids show nothing and wait for nothing."""
        visible = [token_id for token_id in self._pending if self._decode([token_id])]
        if len(visible) < len(self._pending):
            self._pending = visible
            self._restart([] if visible else self._context)

    def _shorten(self, text: str) -> int:
        """Drop the pending ids that cannot be part of an open character; how much of their text is settled.

        The cut is made where it changes nothing, or else inside a character that is whole: then what
        is left decodes to the pieces of that character, which count as shown, and one U+FFFD for the open one.
        """
        for size in range(_OPEN_CHARACTER_TOKENS, 0, -1):
            head, tail = self._pending[:-size], self._pending[-size:]
            settled = len(head_text := self._decode(head))
            if head_text + self._decode(tail) == text:
                self._pending = tail
                self._shown_early = max(0, self._shown_early - settled)
                return settled
        self._pending = self._pending[-_OPEN_CHARACTER_TOKENS:]
        self._shown_early = len(self._decode(self._pending)) - 1
        return len(text) - 1
