"""Owns what a request and its engine's row decide about a stream, alike at its start and when it is carried on."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from streaming.engine.tokenizer import TokenizerBundle
from streaming.protocol.markers import Markers, begins_in_reasoning, markers_named, without_calls
from streaming.protocol.stream_options import StreamOptions

PROMPT_END_TOKENS = 8
#: What an engine writes that is held to the schema of a call.
HELD_CALL = Markers(bare_calls=True)


def stream_options(
    row_options: Mapping[str, Any],
    bundle: TokenizerBundle,
    prompt_ids: Sequence[int],
    response_id: str,
    *,
    asked: Mapping[str, Any],
    stops: Sequence[str],
    max_tokens: int | None,
    min_tokens: int = 0,
) -> StreamOptions:
    """``row_options["markers"]`` names the model's format; ValueError for a name that there is not.

    ``asked`` are the row's stored options: calls are looked for only where tools were given.
    """
    markers = _markers(row_options, asked)
    options: StreamOptions = {
        "stops": stops,
        "max_tokens": max_tokens,
        "max_bytes": settings.MAX_OUTPUT_BYTES,
        "min_tokens": min_tokens,
    }
    if asked.get("one_call"):
        options["one_call"] = True
    if markers is None:
        return options
    prompt_end: str = bundle.tokenizer.decode(list(prompt_ids[-PROMPT_END_TOKENS:]), skip_special_tokens=False)
    return options | {
        "markers": markers,
        "in_reasoning": begins_in_reasoning(markers, prompt_end),
        "call_prefix": f"call_{response_id.removeprefix('resp_')}",
    }


def _markers(row_options: Mapping[str, Any], asked: Mapping[str, Any]) -> Markers | None:
    """The model's format, as far as this request can meet it. Held to a schema, a model writes no markers."""
    markers = markers_named(row_options.get("markers", "none"))
    if asked.get("must_call"):
        return HELD_CALL
    if asked.get("constrained"):
        return None
    return markers if asked.get("tools") else without_calls(markers)
