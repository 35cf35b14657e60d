"""Owns the meaning of llama.cpp's /completion events: text, counts, end, errors. Does no I/O."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from streaming.engine.base import EngineError
from streaming.protocol.engine_output import EngineOutput, EngineUsage
from streaming.protocol.sse_parser import ServerSentEvent

logger = logging.getLogger(__name__)

FINISH_REASONS = {"eos": "stop", "word": "stop", "limit": "length"}
LOGGED_CHARACTERS = 300
#: json.loads without its search for white space at both ends, which costs as much as a small object.
DECODE = json.JSONDecoder().raw_decode


class CompletionStream:
    """Reads one answer. Text and ``tokens_predicted`` are right; the ids in the stream are not complete.

    ``failure`` is what came right behind the output that was read last, in the same bytes.
    """

    def __init__(self) -> None:
        self.failure: EngineError | None = None
        self._predicted = 0

    def read(self, events: Sequence[ServerSentEvent]) -> EngineOutput | None:
        """What arrived together, as one output; None when it was nothing."""
        before = self._predicted
        texts: list[str] = []
        try:
            for event in events:
                chunk = self._parse(event)
                texts.append(self._text(chunk))
                self._count(chunk)
                if chunk.get("stop") is True:
                    return self._final("".join(texts), self._predicted - before, chunk)
        except EngineError as error:
            if not texts:
                raise
            self.failure = error
        text = "".join(texts)
        if not text and self._predicted == before:
            return None
        return EngineOutput(text=text, token_count=self._predicted - before)

    def _parse(self, event: ServerSentEvent) -> dict[str, Any]:
        try:
            chunk, end = DECODE(event.data)
            if end != len(event.data):
                chunk = json.loads(event.data)
        except (ValueError, RecursionError) as error:
            raise self._nonsense("an event that is not JSON", event) from error
        if type(chunk) is not dict:
            raise self._nonsense("an event that is not an object", event)
        if "error" in chunk or event.event == "error":
            logger.warning("engine reported an error")
            logger.debug("it says %r", event.data[:LOGGED_CHARACTERS])
            raise EngineError("upstream_error", "the engine reported an error during the answer")
        return chunk

    def _text(self, chunk: dict[str, Any]) -> str:
        content = chunk.get("content")
        if content is None:
            return ""
        if type(content) is not str:
            raise EngineError("upstream_protocol", "the engine sent content that is not text")
        return content

    def _count(self, chunk: dict[str, Any]) -> None:
        predicted = chunk.get("tokens_predicted")
        if type(predicted) is int and predicted > self._predicted:
            self._predicted = predicted

    def _final(self, text: str, token_count: int, chunk: dict[str, Any]) -> EngineOutput:
        finish_reason = FINISH_REASONS.get(str(chunk.get("stop_type")))
        if finish_reason is None:
            raise EngineError("engine_aborted", "the engine gave up the answer")
        timings = chunk.get("timings")
        usage = EngineUsage(
            prompt_tokens=count_or_none(chunk.get("tokens_evaluated")),
            completion_tokens=self._predicted,
            cached_tokens=count_or_none(timings.get("cache_n")) if type(timings) is dict else None,
        )
        return EngineOutput(text=text, token_count=token_count, finish_reason=finish_reason, usage=usage)

    def _nonsense(self, what: str, event: ServerSentEvent) -> EngineError:
        logger.warning("engine sent %s of %d characters", what, len(event.data))
        logger.debug("it begins %r", event.data[:LOGGED_CHARACTERS])
        return EngineError("upstream_protocol", f"the engine sent {what}")


def count_or_none(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
