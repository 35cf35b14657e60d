"""Owns the state of an answer as its log leaves it, to go on from. Reads no log and takes no output of its own."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Unpack

from .detokenizer import Detokenizer
from .events import DELTAS, TEXT, TOOL_CALL, Draft, Event, said_bytes
from .markers import spelled
from .response_stream import ResponseStream, written
from .rounds import earlier, split
from .stream_options import StreamOptions


class RebuiltStream(ResponseStream):
    """A stream after these stored events, to be fed with what comes after the tokens they carry.

    Ids go through again, so half characters and kept back text are as they were. Text without
    ids was shown, so it is no part of a stop string; what was kept back then comes again.
    Rounds that are over are only counted; ``detokenizer`` and ``options`` are those of the one that runs.
    """

    def __init__(
        self, events: Iterable[Event], *, detokenizer: Detokenizer | None, **options: Unpack[StreamOptions]
    ) -> None:
        over, said = split(events)
        super().__init__(detokenizer=detokenizer, before=earlier(over), **options)
        self._take_again(said)
        if self._max_tokens is not None and self.completion_tokens >= self._max_tokens and not self.finished:
            self.finish_reason = "length"  # no engine can be asked for zero tokens

    def _take_again(self, events: Sequence[Event]) -> None:
        takes_ids = self._detokenizer is not None
        has_all_ids = takes_ids and all(event.token_ids or not event.token_count for event in events)
        owed: deque[Draft] = deque()
        paid = 0
        for event in events:
            if event.token_ids and takes_ids:
                text = self._feed_ids(event.token_ids)
                owed += [*self._ready, *([Draft(TEXT, {"text": text})] if text else [])]
                self._ready.clear()
            else:
                self._consume(event.token_count)
                self._allowance.takes(said_bytes(event.payload))
            if has_all_ids:
                paid = self._pay(owed, _weight(event) - paid)
            self._carried_ids.clear()
            self._carried_tokens = 0
        if has_all_ids:
            # A token may give several events; those that were not stored are still to come.
            self._ready = [Draft(draft.kind, draft.payload) for draft in owed]
        elif self._parts is not None:
            self._take_text_again(events)
        # Not as they are read again: what the model left open there is closed where it is spelled.
        self._told = [event for event in events if event.kind == TOOL_CALL]
        shown = [event.payload["text"] for event in events if event.kind == TEXT]
        self._shown = written(self._before.text + "".join(shown))

    def _pay(self, owed: deque[Draft], weight: int) -> int:
        """Take off what a stored event has given out already: whole drafts. Returns what that was too much.

        More than the event has is taken off where a draft was cut: its other pieces are in the log too.
        """
        if weight > sum(map(_weight, owed)):
            owed += self.flush(natural=True)  # the log went on to an end that was not stored
        while owed and weight > 0:
            weight -= _weight(owed.popleft())
        return max(0, -weight)

    def _take_text_again(self, events: Sequence[Event]) -> None:
        """The state of the kinds from what was shown, beside the gate, which has let it through already."""
        markers = self._options["markers"]
        assert markers is not None
        self._parts = self._new_parts(None)
        self._parts.push(spelled(markers, events, self._options.get("in_reasoning", False)), looks_for_stops=False)
        self._parts.gate = self._gate
        self._heed_ends()


def _weight(delta: Draft | Event) -> int:
    payload = delta.payload
    if delta.kind in DELTAS:
        return len(payload["text"])
    if delta.kind != TOOL_CALL:
        return 0
    return len(payload["arguments"]) + ("name" in payload) + bool(payload["complete"])
