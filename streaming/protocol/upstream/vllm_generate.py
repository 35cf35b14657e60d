"""Owns the meaning of vLLM's generate stream: ids, the engine's own name of the request, its end. Does no I/O."""

from typing import Any

from ..engine_output import EngineOutput
from ..usage import latest
from .json_events import UpstreamFailure, finish_reason_of
from .openai_chat import FINISH_REASONS, OpenAIChat, first_choice, usage_of


class VllmGenerate(OpenAIChat):
    """Reads one answer of ids, framed as chat chunks are. ``engine_id`` is what an abort has to name."""

    engine_id: str | None = None

    def _take(self, fields: dict[str, Any]) -> EngineOutput | None:
        if self.engine_id is None and type(fields.get("request_id")) is str:
            self.engine_id = fields["request_id"]
        usage = usage_of(fields.get("usage"))
        if usage is not None:
            self._usage = latest(self._usage, usage)
        choice = first_choice(fields.get("choices"))
        if choice is None or self.finish_reason is not None:
            return None
        ids = ids_of(choice.get("token_ids"))
        try:
            self.finish_reason = finish_reason_of(choice.get("finish_reason"), FINISH_REASONS)
        except UpstreamFailure as failure:
            self.failure = failure  # the ids that came with it are shown all the same
        return EngineOutput(ids) if ids else None


def ids_of(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if type(value) is not list or not all(type(token_id) is int and token_id >= 0 for token_id in value):
        raise UpstreamFailure("upstream_protocol", "the engine sent ids that are none")
    return tuple(value)
