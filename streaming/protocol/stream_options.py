"""Owns what a request and its engine's row decide about a stream, and the gate and parts made of it. Feeds neither."""

from collections.abc import Sequence
from typing import TypedDict

from .allowance import Allowance
from .marker_parser import MarkerParser
from .markers import Markers
from .output_filter import OutputFilter
from .part_stream import PartStream
from .rounds import Earlier
from .text_gate import TextGate
from .tool_calls import ToolCalls


class StreamOptions(TypedDict, total=False):
    """What a request and its engine's row decide about the stream; the same whenever it is rebuilt.

    Stop strings count in text that came after ``min_tokens`` tokens; what was shown before is no part of
    one. ``in_reasoning``: the prompt has opened the reasoning already. ``call_prefix`` begins the ids of
    calls that have none of their own. ``one_call``: the answer may make one tool call, and is over with it.
    ``max_bytes`` bounds what it may hold, however few tokens its engine counts.
    """

    stops: Sequence[str]
    include_stop: bool
    min_tokens: int
    max_tokens: int | None
    max_bytes: int
    markers: Markers | None
    in_reasoning: bool
    call_prefix: str
    one_call: bool
    output_filter: OutputFilter | None


def gate_of(options: StreamOptions) -> TextGate | None:
    """None where all text may be shown at once."""
    stops, output_filter = options.get("stops", ()), options.get("output_filter")
    if not stops and output_filter is None:
        return None
    return TextGate(stops, options.get("include_stop", False), output_filter)


def allowance_of(options: StreamOptions, before: Earlier) -> Allowance:
    """What is left to an answer, ``before`` whose round so much was made."""
    most = options.get("max_bytes")
    return Allowance(None if most is None else most - before.said_bytes)


def parts_of(options: StreamOptions, gate: TextGate | None, before: Earlier, allowance: Allowance) -> PartStream:
    """Of an answer, or a round of it, ``before`` which so much was made."""
    markers = options.get("markers")
    parser = MarkerParser(markers, options.get("in_reasoning", False)) if markers is not None else None
    calls = ToolCalls(options.get("call_prefix", "call"), before.calls, before.call_ids)
    return PartStream(gate, parser, calls, allowance, one_call=options.get("one_call", False))
