"""Owns reading back what events mean, and what the frames of each dialect say, in one form. Knows no bytes."""

from streaming.protocol.cursor import parse_last_event_id
from streaming.protocol.dialects import ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES
from streaming.protocol.events import DELTAS, REASONING, REFUSAL, TEXT, TOOL_CALL, Event
from tests.protocol.sample_events import HEAD


def meant(events):
    """What the events say: text by kind, and calls as [name, arguments]."""
    said = {kind: "".join([e.payload["text"] for e in events if e.kind == kind]) for kind in DELTAS}
    calls = {}
    for event in events:
        if event.kind == TOOL_CALL:
            call = calls.setdefault(event.payload["index"], ["", ""])
            call[0] += event.payload.get("name", "")
            call[1] += event.payload["arguments"]
    return said, list(calls.values())


def _said_in_chat(frames):
    said, calls = dict.fromkeys(DELTAS, ""), {}
    fields = {"content": TEXT, "reasoning_content": REASONING, "refusal": REFUSAL}
    for _, data, _ in frames:
        for choice in data.get("choices", []) if isinstance(data, dict) else []:
            for field, kind in fields.items():
                said[kind] += choice["delta"].get(field) or ""
            for call in choice["delta"].get("tool_calls", []):
                whole = calls.setdefault(call["index"], ["", ""])
                whole[0] += call["function"].get("name", "")
                whole[1] += call["function"]["arguments"]
    return said, list(calls.values())


def _said_in_responses(frames):
    said, calls = dict.fromkeys(DELTAS, ""), {}
    kinds = {"output_text": TEXT, "reasoning_text": REASONING, "refusal": REFUSAL}
    for name, data, _ in frames:
        if name == "response.output_item.added" and data["item"]["type"] == "function_call":
            calls[data["output_index"]] = [data["item"]["name"], ""]
        elif name == "response.function_call_arguments.delta":
            calls[data["output_index"]][1] += data["delta"]
        elif name.endswith(".delta"):
            said[kinds[name.split(".")[1]]] += data["delta"]
    return said, list(calls.values())


def _said_in_messages(frames):
    said, calls = dict.fromkeys(DELTAS, ""), {}
    kinds = {"text_delta": TEXT, "thinking_delta": REASONING}
    for _, data, _ in frames:
        block, delta = data.get("content_block", {}), data.get("delta", {})
        if block.get("type") == "tool_use":
            calls[data["index"]] = [block["name"], ""]
        elif delta.get("type") == "input_json_delta":
            calls[data["index"]][1] += delta["partial_json"]
        elif delta.get("type") in kinds:
            said[kinds[delta["type"]]] += delta.get("text", "") + delta.get("thinking", "")
    return said, list(calls.values())


def meant_in(dialect, events):
    """What the events say, as far as a dialect can: messages have no kind of their own for a refusal."""
    if dialect != ANTHROPIC:
        return meant(events)
    return meant([Event(e.seq, e.epoch, TEXT, e.payload) if e.kind == REFUSAL else e for e in events])


#: By dialect: what its frames say, in the form of ``meant``.
SAID = {OPENAI_CHAT: _said_in_chat, OPENAI_RESPONSES: _said_in_responses, ANTHROPIC: _said_in_messages}


def text_in(dialect, frames):
    """The answer's text as the deltas of a dialect give it."""
    return SAID[dialect](frames)[0][TEXT]


def positions_in(frames):
    """The positions that the frames' ids name, in their order."""
    return [parse_last_event_id(event_id, HEAD.response_id) for _, _, event_id in frames if event_id]


def seqs_in(frames):
    """The seqs of the frames' ids, in their order."""
    return [position.seq for position in positions_in(frames)]
