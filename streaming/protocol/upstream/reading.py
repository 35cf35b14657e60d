"""Owns the course of reading one upstream answer: what came together, its end, its failure. Knows no wire's words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any

from ..engine_output import EngineOutput, EngineUsage, ToolFragment
from ..sse_parser import ServerSentEvent
from ..usage import latest
from .json_events import UpstreamFailure, object_of
from .meter import Meter


class Reading(ABC):
    """Feed it events until ``is_over``, or the connection ends; then ``close`` gives the last output.

    The finish_reason decides: nothing after it is part of the answer but a report of usage, and no failure after it
    counts. ``failure`` is what came right behind the outputs that were read last.
    """

    def __init__(self, max_tokens: int | None = None):
        self.finish_reason: str | None = None
        self.is_over = False
        self.failure: UpstreamFailure | None = None
        self._usage: EngineUsage | None = None
        self._news = False
        self._meter = Meter(max_tokens)

    @property
    def usage(self) -> EngineUsage | None:
        """The last report, as far as there was one."""
        return self._usage

    def read(self, events: Sequence[ServerSentEvent]) -> list[EngineOutput]:
        """What these events give; adjacent texts are one output."""
        outputs: list[EngineOutput] = []
        try:
            for event in events:
                if self._is_last(event):
                    self.is_over = True
                    break
                output = self._take(object_of(event))
                if output is not None:
                    outputs.append(output)
                if self.failure is not None:
                    break
        except UpstreamFailure as failure:
            self._fail(failure)
        return joined(outputs) if len(outputs) > 1 else outputs

    def close(self) -> EngineOutput:
        """The last output; an UpstreamFailure when the engine never said why it stopped."""
        if self.finish_reason is None:
            raise UpstreamFailure("upstream_lost", "the engine's stream ended before the answer did")
        return EngineOutput(finish_reason=self.finish_reason, usage=self._usage)

    def _fail(self, failure: UpstreamFailure) -> None:
        if self.finish_reason is None:
            self.failure = failure
        else:
            self.is_over = True

    def _is_last(self, event: ServerSentEvent) -> bool:
        """Whether this event does nothing but end the stream."""
        return False

    @abstractmethod
    def _take(self, fields: dict[str, Any]) -> EngineOutput | None:
        """What one event's object gives."""

    def _output(
        self,
        text: str = "",
        reasoning: str = "",
        refusal: str = "",
        tool_calls: tuple[ToolFragment, ...] = (),
        usage: EngineUsage | None = None,
    ) -> EngineOutput | None:
        """An output with its count of tokens. A report without content waits for some: it is no first token."""
        characters = len(text) + len(reasoning) + len(refusal)
        if tool_calls:
            characters += sum(len(fragment.name or "") + len(fragment.arguments) for fragment in tool_calls)
        if usage is not None:
            self._usage, self._news = latest(self._usage, usage), True
        if usage is not None and usage.completion_tokens is not None:
            count = self._meter.report(usage.completion_tokens)
        else:
            count = self._meter.guess(characters) if characters else 0
        if not (characters or tool_calls or count):
            return None
        report, self._news = self._usage if self._news else None, False
        return EngineOutput((), text, count, None, report, reasoning, refusal, tool_calls)


def joined(outputs: Sequence[EngineOutput]) -> list[EngineOutput]:
    """The outputs with those that follow each other and hold ids, or text, alone made one."""
    merged: list[EngineOutput] = []
    for is_plain, run in groupby(outputs, key=is_one_kind):
        same = list(run)
        merged += [in_one(same)] if is_plain and len(same) > 1 else same
    return merged


def is_one_kind(output: EngineOutput) -> bool:
    return not (output.reasoning or output.refusal or output.tool_calls)


def in_one(outputs: Sequence[EngineOutput]) -> EngineOutput:
    usage = None
    for output in outputs:
        if output.usage is not None:
            usage = latest(usage, output.usage)
    if outputs[0].text is None:
        return EngineOutput(tuple(chain.from_iterable([output.token_ids for output in outputs])), usage=usage)
    text = "".join([output.text or "" for output in outputs])
    return EngineOutput(text=text, token_count=sum([output.token_count for output in outputs]), usage=usage)
