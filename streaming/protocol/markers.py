"""Owns the formats in which models mark reasoning and tool calls in their text, as data. Does not parse."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from .events import REASONING, TEXT, TOOL_CALL, Draft, Event, joined_payload


@dataclass(frozen=True, slots=True)
class Markers:
    """One format. ``bare_calls``: a call is a JSON object without markers that the answer begins with."""

    reasoning: tuple[str, str] | None = None
    calls: tuple[str, str] | None = None
    bare_calls: bool = False


THINK = ("<think>", "</think>")
HERMES = ("<tool_call>", "</tool_call>")
#: What Llama 3 may write before bare calls; it is a special token, mostly skipped before it gets here.
PYTHON_TAG = "<|python_tag|>"

#: By the name that stands in an engine row's option ``markers``.
FORMATS = {
    "none": None,
    "think": Markers(reasoning=THINK),
    "hermes": Markers(calls=HERMES),
    "think+hermes": Markers(reasoning=THINK, calls=HERMES),
    "llama3": Markers(bare_calls=True),
}


def markers_named(name: object) -> Markers | None:
    """The format of this name, None for the one without markers; ValueError for an unknown name."""
    if not isinstance(name, str) or name not in FORMATS:
        raise ValueError(f"no markers {name!r}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def without_calls(markers: Markers | None) -> Markers | None:
    """The format for a request without tools: what looks like a call there is text. None where nothing is left."""
    if markers is None or markers.reasoning is None:
        return None
    return replace(markers, calls=None, bare_calls=False)


def begins_in_reasoning(markers: Markers, prompt_end: str) -> bool:
    """Whether a prompt has opened the reasoning already, as some templates do."""
    return markers.reasoning is not None and prompt_end.rstrip().endswith(markers.reasoning[0])


def spelled(markers: Markers, events: Iterable[Draft | Event], in_reasoning: bool = False) -> str:
    """What a model would have written for these events, for engines that carry on from text.

    Parsing it again gives the same events; white space around markers is the model's usual one.
    """
    spoken = [event for event in events if event.kind in (TEXT, REASONING, TOOL_CALL)]
    runs = [list(run) for _, run in groupby(spoken, key=lambda event: (event.kind, event.payload.get("index")))]
    text = ""
    for position, run in enumerate(runs):
        payload = joined_payload(run)
        if run[0].kind == TOOL_CALL:
            text += spelled_call(markers, payload["name"], payload["arguments"], payload["complete"])
        elif run[0].kind == TEXT:
            text += payload["text"]
        else:
            assert markers.reasoning is not None, "only a format with reasoning gives reasoning"
            opened = position == 0 and in_reasoning
            is_over = position + 1 < len(runs)
            text += ("" if opened else f"{markers.reasoning[0]}\n") + payload["text"]
            text += f"{markers.reasoning[1]}\n\n" if is_over else ""
    return text


def spelled_call(markers: Markers, name: str, arguments: str, is_complete: bool = True) -> str:
    """One call as a model writes it in a format that has calls."""
    before, after = (f"{markers.calls[0]}\n", f"}}\n{markers.calls[1]}\n") if markers.calls else ("", "}; ")
    member = "parameters" if markers.bare_calls else "arguments"
    call = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "{member}": {arguments}'
    return before + call + (after if is_complete else "")
