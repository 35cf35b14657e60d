"""Owns an answer's way from engine outputs to drafts: decode, clean, hold back, count. Does not store or end it."""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from .allowance import text_bytes
from .clean_text import REPLACEMENT, CleanText
from .detokenizer import Detokenizer
from .engine_output import EngineOutput, EngineUsage
from .events import TEXT, TOOL_CALL, TOOL_RESULT, Draft, Event, calls_of, merge
from .part_stream import PartStream, Piece
from .rounds import NOTHING, Earlier
from .stream_options import StreamOptions, allowance_of, gate_of, parts_of
from .text_gate import TextGate
from .tool_result import ToolResult
from .usage import latest


class ResponseStream:
    """Feed it what the engine yields; it gives the deltas to store and says when the answer is over.

    ``detokenizer`` is needed when the engine yields ids. ``finished`` means that nothing more
    becomes part of the answer: a stop string matched, the output filter or its one call ended it, the engine gave its
    finish_reason, or it went past ``max_tokens`` or ``max_bytes``. Reaching ``max_tokens`` alone does not finish: the
    engine was given the same limit, and its last output, which may come by itself, carries finish_reason and usage.

    An answer whose calls are run goes on in another round, which is a stream of its own: counts, shown text and calls
    go on from what was made ``before``; usage, half characters, stop strings and markers begin anew.
    """

    def __init__(
        self, *, detokenizer: Detokenizer | None, before: Earlier = NOTHING, **options: Unpack[StreamOptions]
    ) -> None:
        self.finish_reason: str | None = None
        self.generated_tokens = self.completion_tokens = before.tokens
        self.usage: EngineUsage | None = None
        self._detokenizer = detokenizer
        self._before = before
        self._options = options
        self._min_tokens = options.get("min_tokens") or -1  # an engine may give text before it counts a token
        self._max_tokens = options.get("max_tokens")
        self._allowance = allowance_of(options, before)
        self._gate = gate_of(options)
        #: Only where there is more than text; plain text, the common case, goes a short way.
        self._parts = self._new_parts(self._gate) if options.get("markers") is not None else None
        self._passes_all = self._gate is None and self._parts is None
        self._ready: list[Draft] = []
        #: What was given out of the round's calls.
        self._told: list[Draft | Event] = []
        self._clean = CleanText()
        self._shown = written(before.text)
        self._carried_ids: list[int] = []
        self._carried_tokens = 0

    @property
    def finished(self) -> bool:
        """Whether nothing more becomes part of the answer."""
        return self.finish_reason is not None

    @property
    def output_text(self) -> str:
        """What was given out to be shown so far, without reasoning."""
        return self._shown.getvalue()

    @property
    def round_tokens(self) -> int:
        """How many tokens the round has consumed."""
        return self.completion_tokens - self._before.tokens

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls of the round so far, each as one payload: as the log tells them, whoever reads it."""
        return [call for call in calls_of(self._told) if "name" in call]

    @property
    def matched_stop(self) -> str | None:
        """The stop string that ended the answer."""
        return self._gate.matched_stop if self._gate is not None else None

    @property
    def leftover(self) -> tuple[tuple[int, ...], int]:
        """Ids and number of the consumed tokens that no draft carried: a result or the ended event carries them."""
        return tuple(self._carried_ids), self._carried_tokens

    def feed(self, output: EngineOutput) -> list[Draft]:
        """Take one output; the text that became safe to show, as at most one draft for each change of kind."""
        text = ""
        if output.token_ids:
            text = self._feed_ids(output.token_ids)
        elif output.reasoning or output.refusal or output.tool_calls:
            self._feed_kinds(output)
        elif output.text is not None or output.token_count:
            text = self._feed_text(output.text or "", output.token_count)
        if output.usage is not None:
            self.usage = latest(self.usage, output.usage)
        if output.finish_reason is not None and self.finish_reason is None:
            self._finish(output.finish_reason)
        drafts = [self._draft(TEXT, {"text": text})] if text else []
        if self._ready:
            drafts = merge([*self._drain(), *drafts])
        if self.finish_reason is not None and self._gate is not None and self._gate.has_filter:
            drafts = merge([*drafts, *self.flush(natural=True)])  # the filter's last word belongs to the end
        return drafts

    def flush(self, natural: bool) -> list[Draft]:
        """The end: what was kept back. A natural end shows an open character as U+FFFD, a cut drops it."""
        open_end = ""
        if self._gate is None or self._gate.finish_reason is None:
            open_end = self._open_end(natural)
        text = self._show(open_end) if open_end else ""
        if self._parts is not None:
            self._take(self._parts.release(natural))
            return self._drain()
        if self._gate is not None:
            text += self._gate.release()
            self._heed_ends()
        return merge([*self._drain(), self._draft(TEXT, {"text": text})]) if text else self._drain()

    def result(self, result: ToolResult) -> Draft:
        """What came of a call of this round, which has been flushed: with the tokens that no other draft carried."""
        return self._draft(TOOL_RESULT, result.payload())

    def _feed_ids(self, token_ids: Sequence[int]) -> str:
        assert self._detokenizer is not None, "an engine that yields ids needs a detokenizer"
        shown = ""
        for token_id in token_ids:
            if self._consume(1):
                self._carried_ids.append(token_id)
                text = self._detokenizer.push(token_id)
                if text:
                    text = text.replace("\0", REPLACEMENT)
                    shown += text if self._passes_all else self._show(text)
        return shown

    def _feed_text(self, text: str, token_count: int) -> str:
        if not self._consume(token_count):
            return ""
        if not self._allowance.takes(text_bytes(text)):
            self.finish_reason = "length"
            return ""
        text = self._clean.push(text)
        return self._show(text) if text else ""

    def _feed_kinds(self, output: EngineOutput) -> None:
        """From an engine that has told reasoning, refusals or tool calls apart."""
        if self._consume(output.token_count):
            if self._parts is None:
                self._parts, self._passes_all = self._new_parts(self._gate), False
            text = self._clean.push(output.text or "")
            self._take(self._parts.take(output, text, self._looks_for_stops))

    def _new_parts(self, gate: TextGate | None) -> PartStream:
        return parts_of(self._options, gate, self._before, self._allowance)

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

    @property
    def _looks_for_stops(self) -> bool:
        return self.completion_tokens > self._min_tokens

    def _show(self, text: str) -> str:
        """The plain text that may be shown; of an answer of several kinds nothing, it is made ready."""
        if self._parts is not None:
            self._take(self._parts.push(text, self._looks_for_stops))
            return ""
        gate = self._gate
        if gate is None:
            return text
        text = gate.push(text, self.completion_tokens > self._min_tokens)
        if gate.finish_reason is not None:
            self.finish_reason = gate.finish_reason
        return text

    def _take(self, pieces: Iterable[Piece]) -> None:
        self._ready += [self._draft(kind, payload) for kind, payload in pieces]
        self._heed_ends()

    def _heed_ends(self) -> None:
        ends_it = self._parts or self._gate
        if ends_it is not None and ends_it.finish_reason is not None:
            self.finish_reason = ends_it.finish_reason

    def _finish(self, finish_reason: str) -> None:
        made_calls = self._parts is not None and self._parts.has_calls
        self.finish_reason = "tool_calls" if finish_reason == "stop" and made_calls else finish_reason

    def _open_end(self, natural: bool) -> str:
        open_end = self._detokenizer.flush() if self._detokenizer else ""
        open_end += self._clean.flush()
        return open_end if natural else open_end.removesuffix(REPLACEMENT)

    def _drain(self) -> list[Draft]:
        drafts, self._ready = merge(self._ready), []
        for draft in drafts:
            if draft.kind == TEXT:
                self._shown.write(draft.payload["text"])
            elif draft.kind == TOOL_CALL:
                self._told.append(draft)
        return drafts

    def _draft(self, kind: str, payload: Mapping[str, Any]) -> Draft:
        """A delta, or a result, with everything consumed since the last one."""
        if self._parts is None and kind == TEXT:
            self._shown.write(payload["text"])
        draft = Draft(kind, payload, tuple(self._carried_ids), self._carried_tokens)
        self._carried_ids.clear()
        self._carried_tokens = 0
        return draft


def written(text: str) -> io.StringIO:
    """A text that grows at its end."""
    shown = io.StringIO()
    shown.write(text)
    return shown
