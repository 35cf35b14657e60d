"""Owns answers as foreign wires write them, for the tests of their readers, and how a reading is driven."""

import json

from streaming.protocol.response_stream import ResponseStream
from streaming.protocol.sse_parser import SSEParser
from streaming.protocol.upstream import AnthropicMessages, OpenAIChat, UpstreamFailure


def sse(*payloads, newline="\n"):
    """Frames of payloads; a text stands as it is, an Anthropic object brings its event name."""
    frames = []
    for payload in payloads:
        name = f"event: {payload['type']}{newline}" if isinstance(payload, dict) and "type" in payload else ""
        data = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        frames.append(f"{name}data: {data}{newline}{newline}")
    return "".join(frames).encode("utf-8", "backslashreplace")


def chunk(finish_reason=None, usage=None, **delta):
    """One of OpenAI's chunks."""
    made = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    made["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return made | ({"usage": usage} if usage is not None else {})


def report(prompt=7, completion=5, **more):
    """OpenAI's chunk of usage behind the end."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}}


def delta(index, kind, **fields):
    """One of Anthropic's deltas."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def block(index, kind, **fields):
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def message_start(**usage):
    return {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "usage": usage}}


def message_delta(stop_reason, **usage):
    return {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage}


STOP = {"type": "message_stop"}


def outputs_of(reading, *reads):
    """All outputs of an answer that ends well, its last one included."""
    parser, outputs = SSEParser(), []
    for data in reads:
        outputs += reading.read(parser.feed(data))
        assert reading.failure is None, reading.failure.message
        if reading.is_over:
            break
    return [*outputs, reading.close()]


def openai(*payloads, max_tokens=None):
    return outputs_of(OpenAIChat(max_tokens), sse(*payloads))


def anthropic(*payloads, max_tokens=None):
    return outputs_of(AnthropicMessages(max_tokens), sse(*payloads))


def failure_of(reading, *payloads):
    """What a reading gave before it failed, and how it failed: in the stream, or because that just ended."""
    outputs = reading.read(SSEParser().feed(sse(*payloads)))
    if reading.failure is not None:
        return outputs, reading.failure
    try:
        reading.close()
    except UpstreamFailure as failure:
        return outputs, failure
    raise AssertionError("the reading did not fail")


def summed(outputs):
    """The whole answer: text, reasoning, refusal, tokens, finish_reason, usage."""
    usage = next((output.usage for output in reversed(outputs) if output.usage is not None), None)
    return (
        "".join(output.text or "" for output in outputs),
        "".join(output.reasoning for output in outputs),
        "".join(output.refusal for output in outputs),
        sum(output.token_count for output in outputs),
        outputs[-1].finish_reason,
        usage,
    )


def fragments(outputs):
    return [fragment for output in outputs for fragment in output.tool_calls]


def drafts_of(outputs):
    """What becomes of the outputs in a response."""
    stream = ResponseStream(detokenizer=None)
    drafts = [draft for output in outputs for draft in stream.feed(output)]
    return [*drafts, *stream.flush(natural=True)], stream
