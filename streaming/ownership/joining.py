"""Owns where an answer is carried on: the prompt and the state after what is stored of it. Decides not whether."""

from collections.abc import Awaitable, Callable, Sequence

from streaming.engine.prompt import carry_on
from streaming.engine.tokenizer import TokenizerBundle
from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.events import TEXT, Event
from streaming.protocol.markers import spelled
from streaming.protocol.response_stream import ResponseStream, StreamOptions
from streaming.store import log, threads

#: For an engine that yields ids, or text: the state to go on from, and the prompt to ask it with.
CarryOn = Callable[[bool], Awaitable[tuple[ResponseStream, Sequence[int]]]]


def carrier(response_id: str, bundle: TokenizerBundle, prompt_ids: Sequence[int], options: StreamOptions) -> CarryOn:
    """A maker of both from what the log of a running response holds by then."""

    async def carried(yields_ids: bool) -> tuple[ResponseStream, Sequence[int]]:
        events = await threads.run(log.read, response_id)
        stream = rebuilt(events, bundle, prompt_ids, options, yields_ids)
        return stream, joined(events, bundle, prompt_ids, options, yields_ids)

    return carried


def joined(
    events: Sequence[Event], bundle: TokenizerBundle, prompt_ids: Sequence[int], options: StreamOptions, by_ids: bool
) -> list[int]:
    """The prompt and what was produced after it: the same ids, or the shown text tokenized."""
    if by_ids:
        return [*prompt_ids, *(token_id for event in events for token_id in event.token_ids)]
    markers = options.get("markers")
    if markers is not None:
        return carry_on(bundle, prompt_ids, spelled(markers, events, options.get("in_reasoning", False)))
    return carry_on(bundle, prompt_ids, "".join(event.payload["text"] for event in events if event.kind == TEXT))


def rebuilt(
    events: Sequence[Event], bundle: TokenizerBundle, prompt_ids: Sequence[int], options: StreamOptions, by_ids: bool
) -> ResponseStream:
    """The pure state after the events."""
    detokenizer = Detokenizer(bundle.tokenizer, prompt_ids) if by_ids else None
    return ResponseStream.rebuild(events, detokenizer=detokenizer, **options)
