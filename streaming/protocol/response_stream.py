"""Owns an answer's way from engine outputs to drafts: decode, clean, hold back, count. Does not store or end it."""

import io
from collections.abc import Iterable, Sequence
from typing import Self

from .clean_text import REPLACEMENT, CleanText
from .detokenizer import Detokenizer
from .engine_output import EngineOutput, EngineUsage
from .events import TEXT, Draft, Event
from .holdback import Holdback
from .usage import latest


class ResponseStream:
    """Feed it what the engine yields; it gives the deltas to store and says when the answer is over.

    ``detokenizer`` is needed when the engine yields ids. ``finished`` means that nothing more
    becomes part of the answer: a stop string matched, the engine gave its finish_reason, or it
    went past ``max_tokens``. Reaching ``max_tokens`` alone does not finish: the engine was given the
    same limit, and its last output, which may come by itself, carries finish_reason and usage.
    """

    def __init__(
        self,
        *,
        detokenizer: Detokenizer | None,
        stops: Sequence[str] = (),
        include_stop: bool = False,
        max_tokens: int | None = None,
    ) -> None:
        self.finish_reason: str | None = None
        self.generated_tokens = 0
        self.completion_tokens = 0
        self.usage: EngineUsage | None = None
        self._detokenizer = detokenizer
        self._holdback = Holdback(stops, include_stop) if stops else None
        self._max_tokens = max_tokens
        self._clean = CleanText()
        self._shown = io.StringIO()
        self._carried_ids: list[int] = []
        self._carried_tokens = 0

    @property
    def finished(self) -> bool:
        """Whether nothing more becomes part of the answer."""
        return self.finish_reason is not None

    @property
    def output_text(self) -> str:
        """What was given out to be shown so far."""
        return self._shown.getvalue()

    @property
    def leftover(self) -> tuple[tuple[int, ...], int]:
        """Ids and number of the consumed tokens that no draft carried: the ended event carries them."""
        return tuple(self._carried_ids), self._carried_tokens

    def feed(self, output: EngineOutput) -> list[Draft]:
        """Take one output; the text that became safe to show, as at most one draft."""
        text = ""
        if output.token_ids:
            text = self._feed_ids(output.token_ids)
        elif output.text is not None or output.token_count:
            text = self._feed_text(output.text or "", output.token_count)
        if output.usage is not None:
            self.usage = latest(self.usage, output.usage)
        if output.finish_reason is not None and self.finish_reason is None:
            self.finish_reason = output.finish_reason
        return [self._draft(text)] if text else []

    def flush(self, natural: bool) -> list[Draft]:
        """The end: what was kept back. A natural end shows an open character as U+FFFD, a cut drops it."""
        if self._holdback is not None and self._holdback.matched is not None:
            return []
        open_end = self._detokenizer.flush() if self._detokenizer else ""
        open_end += self._clean.flush()
        if not natural:
            open_end = open_end.removesuffix(REPLACEMENT)
        text = self._show(open_end) if open_end else ""
        if self._holdback is not None:
            text += self._holdback.release()
        return [self._draft(text)] if text else []

    @classmethod
    def rebuild(
        cls,
        events: Iterable[Event],
        *,
        detokenizer: Detokenizer | None,
        stops: Sequence[str] = (),
        include_stop: bool = False,
        max_tokens: int | None = None,
    ) -> Self:
        """The state after these stored events, to be fed with what comes after the tokens they carry.

        Ids go through again, so half characters and kept back text are as they were. Text without
        ids was shown, so it is no part of a stop string; what was kept back then comes again.
        """
        stream = cls(detokenizer=detokenizer, stops=stops, include_stop=include_stop, max_tokens=max_tokens)
        for event in events:
            stream._replay(event)
        if max_tokens is not None and stream.completion_tokens >= max_tokens and not stream.finished:
            stream.finish_reason = "length"  # no engine can be asked for zero tokens
        return stream

    def _replay(self, event: Event) -> None:
        if event.token_ids:
            self._feed_ids(event.token_ids)
        else:
            self.generated_tokens += event.token_count
            self.completion_tokens += event.token_count
        if event.kind == TEXT:
            self._shown.write(event.payload["text"])
        self._carried_ids.clear()
        self._carried_tokens = 0

    def _feed_ids(self, token_ids: Sequence[int]) -> str:
        assert self._detokenizer is not None, "an engine that yields ids needs a detokenizer"
        shown = ""
        for token_id in token_ids:
            if self._consume(1):
                self._carried_ids.append(token_id)
                text = self._detokenizer.push(token_id)
                if text:
                    shown += self._show(text.replace("\0", REPLACEMENT))
        return shown

    def _feed_text(self, text: str, token_count: int) -> str:
        if not self._consume(token_count):
            return ""
        text = self._clean.push(text)
        return self._show(text) if text else ""

    def _consume(self, token_count: int) -> bool:
        """Count tokens; whether they are part of the answer."""
        self.generated_tokens += token_count
        if self.finish_reason is not None:
            return False
        if self._max_tokens is not None and token_count and self.completion_tokens >= self._max_tokens:
            self.finish_reason = "length"
            return False
        self.completion_tokens += token_count
        self._carried_tokens += token_count
        return True

    def _show(self, text: str) -> str:
        if self._holdback is None:
            return text
        text = self._holdback.push(text)
        if self._holdback.matched is not None:
            self.finish_reason = "stop"
        return text

    def _draft(self, text: str) -> Draft:
        """A delta with everything consumed since the last one."""
        self._shown.write(text)
        draft = Draft(TEXT, {"text": text}, tuple(self._carried_ids), self._carried_tokens)
        self._carried_ids.clear()
        self._carried_tokens = 0
        return draft
