"""Owns what an answer goes on from, new or part written: its prompt, its pure state, its job. Decides not whether."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streaming import tools
from streaming.engine.base import Sampling
from streaming.engine.prompt import carry_on
from streaming.engine.registry import bundle_for
from streaming.engine.tokenizer import TokenizerBundle
from streaming.models import Engine, Response
from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.events import TEXT, Event
from streaming.protocol.markers import spelled
from streaming.protocol.policy import Policy
from streaming.protocol.rebuilt_stream import RebuiltStream
from streaming.protocol.response_stream import ResponseStream
from streaming.protocol.rounds import split
from streaming.protocol.stream_options import StreamOptions
from streaming.relay import Job, Outset
from streaming.store import log, threads

from .round_prompts import RoundPrompts
from .stream_options import stream_options

#: To an engine that knows priorities the smaller is the more urgent.
LATER = 1


@dataclass(frozen=True, slots=True)
class Beginning:
    """The same at a response's start and whenever it is carried on. ``by_ids``: for an engine that yields ids.

    Prompt and options are those of one round; ``prompts`` makes those of later ones, where there can be any.
    """

    response_id: str
    bundle: TokenizerBundle
    prompt_ids: Sequence[int]
    options: StreamOptions
    prompts: RoundPrompts | None = None

    def within(self, max_tokens: int) -> "Beginning":
        """The same for an answer of that many tokens."""
        if max_tokens == self.options.get("max_tokens"):
            return self
        return replace(self, options={**self.options, "max_tokens": max_tokens})

    def prompt_after(self, said: Sequence[Event], by_ids: bool) -> list[int]:
        """The prompt and what the round has produced after it: the same ids, or the shown text tokenized."""
        if by_ids:
            return [*self.prompt_ids, *(token_id for event in said for token_id in event.token_ids)]
        markers = self.options.get("markers")
        if markers is not None:
            text = spelled(markers, said, self.options.get("in_reasoning", False))
        else:
            text = "".join(event.payload["text"] for event in said if event.kind == TEXT)
        return carry_on(self.bundle, self.prompt_ids, text)

    def stream_after(self, events: Sequence[Event], by_ids: bool) -> ResponseStream:
        """The pure state after the events."""
        detokenizer = Detokenizer(self.bundle.tokenizer, self.prompt_ids) if by_ids else None
        return RebuiltStream(events, detokenizer=detokenizer, **self.options)

    async def carried_on(self, by_ids: bool) -> Outset:
        """The state after all that is stored by now, and the prompt to ask the next engine with."""
        events = await threads.run(log.read, self.response_id)
        over, said = split(events)
        if self.prompts is None or not over:
            return self._outset(events, said, by_ids)
        messages = self.prompts.messages_after(over)
        prompt_ids = await self.prompts.ids_of(messages)
        if prompt_ids is None:
            stream = self.stream_after(events, by_ids)
            stream.finish_reason = stream.finish_reason or "length"
            return Outset(stream, (), 0)
        options = self.prompts.options(self.response_id, prompt_ids, self.options)
        outset = replace(self, prompt_ids=prompt_ids, options=options)._outset(events, said, by_ids)
        room_tokens = self.prompts.row.context_tokens - len(outset.prompt_ids)
        return replace(outset, messages=messages, room_tokens=room_tokens)

    async def read_in_round(self, events: Sequence[Event]) -> int:
        """How many tokens the prompt of the round has that has begun; 0 between two rounds."""
        over, said = split(events)
        if self.prompts is None or not over:
            return len(self.prompt_ids)
        prompt_ids = await self.prompts.ids_of(self.prompts.messages_after(over)) if said else None
        return len(prompt_ids or ())

    def _outset(self, events: Sequence[Event], said: Sequence[Event], by_ids: bool) -> Outset:
        stream = self.stream_after(events, by_ids)
        is_read = not stream.finished or bool(said)
        return Outset(stream, self.prompt_after(said, by_ids), len(self.prompt_ids) if is_read else 0)


def beginning_of(row: Engine, response_id: str, request: Mapping[str, Any], prompt_ids: Sequence[int]) -> Beginning:
    """From an engine's row and the request as a response stores it; ValueError for markers that there are not."""
    bundle = bundle_for(row)
    options = stream_options(
        row.options,
        bundle,
        prompt_ids,
        response_id,
        asked=request.get("options", {}),
        stops=tuple(request["stop"]),
        max_tokens=request["max_tokens"],
        min_tokens=request["sampling"].get("min_tokens", 0),
    )
    return Beginning(response_id, bundle, prompt_ids, options)


def job_of(response: Response, policy: Policy, prompt_ids: Sequence[int]) -> Job:
    """What the row asks for: all but what only the first owner has, the turns and a caller's tools."""
    request = response.request
    return Job(
        response_id=response.id,
        epoch=response.epoch,
        model=response.model,
        prompt_ids=prompt_ids,
        prompt_tokens=response.prompt_tokens or 0,
        sampling=Sampling(max_tokens=request["max_tokens"], stop=tuple(request["stop"]), **_sampling(response)),
        policy=policy,
        stream=response.stream,
        cache_salt=str(response.user_id),
        priority=LATER if response.purpose in Response.UNHURRIED else 0,
        tools=tools.definitions(response.run_tools),
        run_tools=response.run_tools,
        conversation=response.conversation_id or "",
        earlier_attempts=response.attempts,
    )


def _sampling(response: Response) -> dict[str, Any]:
    """The sampling parameters as they were asked for; JSON made texts of the token ids."""
    sampling = dict(response.request["sampling"])
    if bias := sampling.get("logit_bias"):
        sampling["logit_bias"] = {int(token_id): value for token_id, value in bias.items()}
    return sampling
