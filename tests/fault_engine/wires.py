"""Owns what an answer looks like on each of the four wires. Decides neither when a chunk is sent nor what breaks."""

import json
import time

STAMP_EVERY = 20


class Stream:
    """One answer on its way, from the request to its last byte."""

    __slots__ = (
        "body",
        "connection",
        "control",
        "has_head",
        "interval_s",
        "left",
        "prompt_tokens",
        "sent",
        "slot",
        "wire",
    )

    def __init__(self, connection, wire, body, control, interval_s):
        self.connection = connection
        self.wire = wire
        self.body = body
        self.control = control
        self.interval_s = interval_s
        self.prompt_tokens = wire.prompt_tokens(body)
        self.left = wire.limit(body)
        self.sent = 0
        self.slot = None
        self.has_head = False

    @property
    def seed(self):
        return self.body.get("seed", -1)

    @property
    def text(self):
        """What the token that was sent last says."""
        return b"<%.4f>" % time.time() if (self.sent - 1) % STAMP_EVERY == 0 else b" the"


class Completion:
    """llama.cpp's own wire."""

    path = "/completion"
    early_head = False
    reasons = {"length": b"limit", "stop": b"eos"}

    @staticmethod
    def prompt_tokens(body):
        return len(body["prompt"])

    @staticmethod
    def limit(body):
        return body.get("n_predict", -1)

    @staticmethod
    def frame(payload):
        return b"data: " + payload + b"\n\n"

    @staticmethod
    def opening(stream):
        return []

    @staticmethod
    def token(stream):
        return (
            b'{"index":0,"content":"%b","tokens":[260],"stop":false,"id_slot":-1,'
            b'"tokens_predicted":%d,"tokens_evaluated":%d}' % (stream.text, stream.sent, stream.prompt_tokens)
        )

    @classmethod
    def ending(cls, stream, reason):
        yield (
            b'{"index":0,"content":"","tokens":[],"id_slot":%d,"stop":true,"stop_type":"%b","tokens_predicted":%d,'
            b'"tokens_evaluated":%d,"timings":{"cache_n":%d,"prompt_n":1}}'
        ) % (stream.slot, cls.reasons[reason], stream.sent, stream.prompt_tokens, max(0, stream.prompt_tokens - 1))


class Chat(Completion):
    """OpenAI's chunks. A prompt has as many tokens as its texts have words."""

    path = "/v1/chat/completions"

    @staticmethod
    def prompt_tokens(body):
        return sum(len(str(message["content"]).split()) for message in body["messages"])

    @staticmethod
    def limit(body):
        return body.get("max_tokens", body.get("max_completion_tokens", -1))

    @staticmethod
    def usage(stream):
        counts = {"prompt_tokens": stream.prompt_tokens, "completion_tokens": stream.sent}
        return {**counts, "prompt_tokens_details": {"cached_tokens": 0}}

    @classmethod
    def chunk(cls, stream, delta, reason=None):
        chunk = {"id": "c", "object": "chat.completion.chunk", "model": "fault"}
        chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": reason}]
        asked = stream.body.get("stream_options") or {}
        if stream.control.get("usage") == "each" or asked.get("continuous_usage_stats"):
            chunk["usage"] = cls.usage(stream)
        return json.dumps(chunk, separators=(",", ":")).encode()

    @classmethod
    def opening(cls, stream):
        return [cls.chunk(stream, {"role": "assistant", "content": ""})]

    @classmethod
    def token(cls, stream):
        return cls.chunk(stream, {"content": stream.text.decode()})

    @classmethod
    def ending(cls, stream, reason):
        yield cls.chunk(stream, {}, reason)
        asked = stream.body.get("stream_options") or {}
        if asked.get("include_usage") and stream.control.get("usage") != "none":
            yield json.dumps({"choices": [], "usage": cls.usage(stream)}).encode()
        yield b"[DONE]"


class Messages(Chat):
    """Anthropic's events."""

    path = "/v1/messages"
    reasons = {"length": "max_tokens", "stop": "end_turn"}

    @staticmethod
    def frame(payload):
        return b"event: " + json.loads(payload)["type"].encode() + b"\ndata: " + payload + b"\n\n"

    @staticmethod
    def opening(stream):
        usage = {"input_tokens": stream.prompt_tokens, "cache_read_input_tokens": 0, "output_tokens": 1}
        start = {"type": "message_start", "message": {"role": "assistant", "usage": usage}}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return [json.dumps(part).encode() for part in (start, {"type": "ping"}, block)]

    @staticmethod
    def token(stream):
        delta = {"type": "text_delta", "text": stream.text.decode()}
        return json.dumps({"type": "content_block_delta", "index": 0, "delta": delta}, separators=(",", ":")).encode()

    @classmethod
    def ending(cls, stream, reason):
        usage = {} if stream.control.get("usage") == "none" else {"output_tokens": stream.sent}
        stop = {"type": "message_delta", "delta": {"stop_reason": cls.reasons[reason]}, "usage": usage}
        for part in ({"type": "content_block_stop", "index": 0}, stop, {"type": "message_stop"}):
            yield json.dumps(part).encode()


class VllmGenerate(Chat):
    """vLLM's ids. Headers come at once, also while the request waits."""

    path = "/inference/v1/generate"
    early_head = True

    @staticmethod
    def prompt_tokens(body):
        return len(body["token_ids"])

    @staticmethod
    def limit(body):
        return body["sampling_params"]["max_tokens"]

    @staticmethod
    def name(stream):
        return "generate-tokens-" + stream.body["request_id"]

    @classmethod
    def ids(cls, stream, ids, reason=None):
        choice = {"index": 0, "finish_reason": reason, "stop_reason": None, "token_ids": ids}
        return json.dumps({"request_id": cls.name(stream), "usage": None, "choices": [choice]}).encode()

    @classmethod
    def opening(cls, stream):
        return []

    @classmethod
    def token(cls, stream):
        return cls.ids(stream, [ord("a") + stream.sent % 26])

    @classmethod
    def ending(cls, stream, reason):
        yield cls.ids(stream, [], reason)
        if stream.control.get("usage") != "none":
            usage = {"prompt_tokens": stream.prompt_tokens, "completion_tokens": stream.sent}
            yield json.dumps({"request_id": cls.name(stream), "choices": [], "usage": usage}).encode()
        yield b"[DONE]"


WIRES = (Completion, Chat, Messages, VllmGenerate)
