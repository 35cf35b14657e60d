"""Owns an answer's way from engine outputs to drafts: decode, clean, hold back, count. Does not store or end it."""

import io
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypedDict, Unpack

from .clean_text import REPLACEMENT, CleanText
from .detokenizer import Detokenizer
from .engine_output import EngineOutput, EngineUsage
from .events import DELTAS, TEXT, TOOL_CALL, TOOL_RESULT, Draft, Event, merge
from .marker_parser import MarkerParser
from .markers import Markers, spelled
from .output_filter import OutputFilter
from .part_stream import PartStream, Piece
from .rounds import NOTHING, Earlier, earlier, split
from .text_gate import TextGate
from .tool_calls import ToolCalls
from .tool_result import ToolResult
from .usage import latest


class StreamOptions(TypedDict, total=False):
    """What a request and its engine's row decide about the stream; the same whenever it is rebuilt.

    Stop strings count in text that came after ``min_tokens`` tokens; what was shown before is no part of
    one. ``in_reasoning``: the prompt has opened the reasoning already. ``call_prefix`` begins the ids of
    calls that have none of their own. ``one_call``: the answer may make one tool call, and is over with it.
    """

    stops: Sequence[str]
    include_stop: bool
    min_tokens: int
    max_tokens: int | None
    markers: Markers | None
    in_reasoning: bool
    call_prefix: str
    one_call: bool
    output_filter: OutputFilter | None


class ResponseStream:
    """Feed it what the engine yields; it gives the deltas to store and says when the answer is over.

    ``detokenizer`` is needed when the engine yields ids. ``finished`` means that nothing more
    becomes part of the answer: a stop string matched, the output filter or its one call ended it, the engine gave its
    finish_reason, or it went past ``max_tokens``. Reaching ``max_tokens`` alone does not finish: the engine was
    given the same limit, and its last output, which may come by itself, carries finish_reason and usage.

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
        self._gate = self._make_gate()
        #: Only where there is more than text; plain text, the common case, goes a short way.
        self._parts = self._make_parts() if options.get("markers") is not None else None
        self._passes_all = self._gate is None and self._parts is None
        self._ready: list[Draft] = []
        self._clean = CleanText()
        self._shown = _written(before.text)
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
        """The calls of the round so far, each as one payload."""
        return self._parts.calls if self._parts is not None else []

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

    @classmethod
    def rebuild(
        cls, events: Iterable[Event], *, detokenizer: Detokenizer | None, **options: Unpack[StreamOptions]
    ) -> Self:
        """The state after these stored events, to be fed with what comes after the tokens they carry.

        Ids go through again, so half characters and kept back text are as they were. Text without
        ids was shown, so it is no part of a stop string; what was kept back then comes again.
        Rounds that are over are only counted; ``detokenizer`` and ``options`` are those of the one that runs.
        """
        over, said = split(events)
        stream = cls(detokenizer=detokenizer, before=earlier(over), **options)
        stream._replay(said)
        max_tokens = stream._max_tokens
        if max_tokens is not None and stream.completion_tokens >= max_tokens and not stream.finished:
            stream.finish_reason = "length"  # no engine can be asked for zero tokens
        return stream

    def _make_gate(self) -> TextGate | None:
        stops, output_filter = self._options.get("stops", ()), self._options.get("output_filter")
        if not stops and output_filter is None:
            return None
        return TextGate(stops, self._options.get("include_stop", False), output_filter)

    def _make_parts(self) -> PartStream:
        markers = self._options.get("markers")
        parser = MarkerParser(markers, self._options.get("in_reasoning", False)) if markers is not None else None
        calls = ToolCalls(self._options.get("call_prefix", "call"), self._before.calls, self._before.call_ids)
        return PartStream(self._gate, parser, calls, one_call=self._options.get("one_call", False))

    def _replay(self, events: Sequence[Event]) -> None:
        replays_ids = self._detokenizer is not None
        has_all_ids = replays_ids and all(event.token_ids or not event.token_count for event in events)
        owed: deque[Draft] = deque()
        for event in events:
            if event.token_ids and replays_ids:
                text = self._feed_ids(event.token_ids)
                owed += [*self._ready, *([Draft(TEXT, {"text": text})] if text else [])]
                self._ready.clear()
            else:
                self._consume(event.token_count)
            if has_all_ids:
                self._pay(owed, event)
            self._carried_ids.clear()
            self._carried_tokens = 0
        if has_all_ids:
            # A token may give several events; those that were not stored are still to come.
            self._ready = [Draft(draft.kind, draft.payload) for draft in owed]
        elif self._parts is not None:
            self._replay_text(events)
        shown = [event.payload["text"] for event in events if event.kind == TEXT]
        self._shown = _written(self._before.text + "".join(shown))

    def _pay(self, owed: deque[Draft], event: Event) -> None:
        """Take off what a stored event, made of whole drafts, has given out already."""
        weight = _weight(event)
        if weight > sum(map(_weight, owed)):
            owed += self.flush(natural=True)  # the log went on to an end that was not stored
        while owed and weight > 0:
            weight -= _weight(owed.popleft())

    def _replay_text(self, events: Sequence[Event]) -> None:
        """The state of the kinds from what was shown, beside the gate, which has let it through already."""
        markers = self._options["markers"]
        assert markers is not None
        self._parts = self._make_parts()
        self._parts.gate = None
        self._parts.push(spelled(markers, events, self._options.get("in_reasoning", False)), looks_for_stops=False)
        self._parts.gate = self._gate
        self._heed_ends()

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
        text = self._clean.push(text)
        return self._show(text) if text else ""

    def _feed_kinds(self, output: EngineOutput) -> None:
        """From an engine that has told reasoning, refusals or tool calls apart."""
        if self._consume(output.token_count):
            if self._parts is None:
                self._parts, self._passes_all = self._make_parts(), False
            text = self._clean.push(output.text or "")
            self._take(self._parts.take(output, text, self._looks_for_stops))

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
        return drafts

    def _draft(self, kind: str, payload: Mapping[str, Any]) -> Draft:
        """A delta, or a result, with everything consumed since the last one."""
        if self._parts is None and kind == TEXT:
            self._shown.write(payload["text"])
        draft = Draft(kind, payload, tuple(self._carried_ids), self._carried_tokens)
        self._carried_ids.clear()
        self._carried_tokens = 0
        return draft


def _written(text: str) -> io.StringIO:
    shown = io.StringIO()
    shown.write(text)
    return shown


def _weight(delta: Draft | Event) -> int:
    payload = delta.payload
    if delta.kind in DELTAS:
        return len(payload["text"])
    if delta.kind != TOOL_CALL:
        return 0
    return len(payload["arguments"]) + ("name" in payload) + bool(payload["complete"])
