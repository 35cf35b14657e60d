"""Owns the prompts of an answer's later rounds: the turns before it, then what its rounds said. Asks no engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streaming.engine.registry import bundle_for
from streaming.models import Engine
from streaming.protocol.rounds import Round
from streaming.protocol.stream_options import StreamOptions

from .ask import Ask
from .prompting import fitted
from .stream_options import stream_options


@dataclass(frozen=True, slots=True)
class RoundPrompts:
    """``ask`` has the turns that the first prompt was made of, and the tools; ``row`` is an engine of the model."""

    ask: Ask
    row: Engine

    def messages_after(self, rounds: Sequence[Round]) -> list[Mapping[str, Any]]:
        """The turns before the answer, and those that its rounds make."""
        return [*self.ask.messages, *(turn for one in rounds for turn in one.turns())]

    async def ids_of(self, messages: Sequence[Mapping[str, Any]]) -> list[int] | None:
        """The prompt; None where the context has no room behind it. No turn is dropped: it begins as the first."""
        _, token_ids = await fitted(replace(self.ask, messages=messages, conversation_id=None), self.row)
        return token_ids

    def options(self, response_id: str, prompt_ids: Sequence[int], first: StreamOptions) -> StreamOptions:
        """The stream's in a later round: what the first one was held to has been met, the rest stays."""
        return stream_options(
            self.row.options,
            bundle_for(self.row),
            prompt_ids,
            response_id,
            asked={"tools": True},
            stops=first.get("stops", ()),
            max_tokens=first.get("max_tokens"),
            min_tokens=first.get("min_tokens", 0),
        )
