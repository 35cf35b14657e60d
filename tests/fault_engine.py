"""Owns a fast engine without a model, speaking four wires, that breaks on request. Standard library only.

llama.cpp's `/completion`, OpenAI's `/v1/chat/completions`, Anthropic's `/v1/messages`, vLLM's `/inference/v1/generate`.

``python tests/fault_engine.py --port 0 --rate 25 --slots 200`` prints the port it listens on. Every
token is " the"; each 20th chunk, from the first on, carries the time it was sent as ``<seconds>``,
so that a load driver can tell what the way between adds.

``POST /_control`` with an object sets what happens to the requests that arrive later (``{}`` clears):
``die_after`` (the socket closes amid the body), ``reset_after`` (RST), ``eof_after`` (a clean end of the body),
``stall_after``, ``error_after`` (error object), ``garbage_after`` (not JSON), ``bad_utf8_after`` (bytes in a text
that are not UTF-8), ``half_event_after`` (half an event, then a clean end), ``long_line_after`` (9 MB without a
newline), ``eos_after`` (the model ends by itself): each a number of chunks. ``status`` (refused with it),
``html``, ``json`` (a 200 that is no event stream), ``prefill_s``, ``rate``, ``split`` (each event in two
writes), ``crlf``, ``burst`` (events per write), ``hold_slots`` (a closed socket does not free its slot until
cleared), ``say`` (a text that is the rest of the stream as it stands, after ``say_after`` chunks, with ``then`` "eof",
"reset" or "open"), ``comments`` (before each event), ``usage`` ("each", "none"; else where the wire has it),
``refuse_fields`` (a request that has one of them is refused), ``keep_open`` (no end of the body), ``no_abort`` (vLLM's
abort call is taken and does nothing).
The answer of ``/_control``, also to GET, is the counts. ``/_arrivals`` tells of each of the first requests how many
were there with it (itself among them), and how many answers had begun since the start.
"""

import argparse
import asyncio
import contextlib
import functools
import heapq
import itertools
import json
import signal
import socket
import struct
import time
from collections import deque

TICK_S = 0.002
STAMP_EVERY = 20
LONG_LINE_BYTES = 9 * 2**20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ARRIVALS_MAX = 500
LAST_CHUNK = b"0\r\n\r\n"


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


class Connection(asyncio.Protocol):
    """Reads requests off one socket and writes frames to it."""

    def __init__(self, engine):
        self.engine = engine
        self.received = bytearray()
        self.stream = None
        self.paused = False
        self.outbox = deque()

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error):
        if self.stream is not None:
            self.engine.aborted(self.stream)

    def pause_writing(self):
        self.paused = True

    def resume_writing(self):
        self.paused = False

    def data_received(self, data):
        self.received += data
        while (head_end := self.received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.received[:head_end]).decode("latin-1")
            fields = dict(line.lower().split(":", 1) for line in head.split("\r\n")[1:])
            end = head_end + 4 + int(fields.get("content-length", 0))
            if len(self.received) < end:
                return
            body = bytes(self.received[head_end + 4 : end])
            del self.received[:end]
            method, path, _ = head.split(" ", 2)
            self.engine.handle(self, method, path.partition("?")[0], body)

    def answer(self, payload, status=200, content_type="application/json", extra=""):
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n{extra}Content-Length: {len(data)}\r\n\r\n"
        self.transport.write(head.encode() + data)

    def send(self, data, split=False):
        """Write in order; ``split`` cuts the bytes into two writes, some time apart."""
        pieces = [data[: len(data) // 2], data[len(data) // 2 :]] if split else [data]
        if not self.outbox:
            self.transport.write(pieces.pop(0))
            if pieces:
                asyncio.get_running_loop().call_later(TICK_S / 2, self.send_next)
        self.outbox += pieces

    def send_next(self):
        self.transport.write(self.outbox.popleft())
        if self.outbox:
            asyncio.get_running_loop().call_later(TICK_S / 2, self.send_next)

    def reset(self):
        linger = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()


class FaultEngine:
    """The server: slots, a queue behind them, one task that gives every stream its next chunk."""

    def __init__(self, rate=25.0, slots=1000, context=8192):
        self.rate = rate
        self.context = context
        self.control = {}
        self.slots = [None] * slots
        self.deferred = deque()
        self.due = []
        self.order = itertools.count()
        self.chunks_total = self.aborted_total = self.finished_total = self.requests_total = 0
        self.port = None
        self.life = time.monotonic_ns() // 1000
        self.bodies = deque(maxlen=100)
        self.begun_total = 0
        self.arrivals = []

    @property
    def running(self):
        return sum(stream is not None for stream in self.slots)

    @contextlib.asynccontextmanager
    async def serving(self, port=0):
        """Listen while the block runs; in a test's own loop its counts can be read directly."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self), "127.0.0.1", port, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]
        ticking = asyncio.create_task(self.tick())
        try:
            yield self
        finally:
            ticking.cancel()
            for stream in filter(None, self.slots):
                stream.connection.transport.abort()
            server.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def handle(self, connection, method, path, body):
        route = {
            **{wire.path: functools.partial(self.complete, wire) for wire in WIRES},
            "/inference/v1/abort_requests": self.abort_requests,
            "/_control": self.steer,
            "/_arrivals": lambda to, _: to.answer(self.arrivals),
            "/v1/models": lambda to, _: to.answer(
                {"object": "list", "data": [{"id": "fault", "max_model_len": self.context}]}
            ),
            "/slots": lambda to, _: to.answer([self.slot_row(nth) for nth in range(len(self.slots))]),
            "/health": lambda to, _: to.answer({"status": "ok"}),
            "/metrics": lambda to, _: to.answer(
                self.metrics(),
                content_type="text/plain; version=0.0.4",
                extra=f"Process-Start-Time-Unix: {self.life}\r\n",
            ),
        }.get(path)
        if route is None:
            connection.answer({"error": {"code": 404, "message": "no such path", "type": "not_found_error"}}, 404)
        else:
            route(connection, body if method == "POST" else b"")

    def steer(self, connection, body):
        if body:
            self.set_control(json.loads(body))
        connection.answer(self.counts())

    def set_control(self, control):
        self.control = dict(control)
        if not control.get("hold_slots"):
            for stream in [stream for stream in self.slots if stream is not None]:
                if stream.connection.transport.is_closing():
                    self.free(stream)

    def counts(self):
        return {
            "chunks_total": self.chunks_total,
            "aborted_total": self.aborted_total,
            "finished_total": self.finished_total,
            "requests_total": self.requests_total,
            "running": self.running,
            "deferred": len(self.deferred),
        }

    def metrics(self):
        counts = {f"fault:{name}": value for name, value in self.counts().items()}
        counts["llamacpp:tokens_predicted_total"] = self.chunks_total
        counts["vllm:generation_tokens_total"] = self.chunks_total
        counts["llamacpp:requests_processing"] = self.running
        counts["llamacpp:requests_deferred"] = len(self.deferred)
        counts["vllm:num_requests_running"] = self.running
        counts["vllm:num_requests_waiting"] = len(self.deferred)
        counts["process_start_time_seconds"] = self.life
        return "".join(f"{name} {value}\n" for name, value in counts.items()).encode()

    def slot_row(self, nth):
        stream = self.slots[nth]
        row = {"id": nth, "n_ctx": self.context, "is_processing": stream is not None}
        return row if stream is None else {**row, "params": {"seed": stream.seed}}

    def complete(self, wire, connection, body):
        request = json.loads(body)
        self.requests_total += 1
        self.bodies.append(request)
        control = self.control
        if status := control.get("status"):
            return connection.answer({"error": {"code": status, "message": "scripted secret", "type": "x"}}, status)
        if control.get("html"):
            return connection.answer(b"<html>proxy</html>", content_type="text/html")
        if control.get("json"):
            return connection.answer({"content": "whole answer"})
        if request.keys() & set(control.get("refuse_fields", ())):
            return connection.answer({"error": {"message": "unknown field"}}, 400)
        if wire.prompt_tokens(request) >= self.context:
            counts = {"n_prompt_tokens": wire.prompt_tokens(request), "n_ctx": self.context}
            error = {"code": 400, "message": "too long", "type": "exceed_context_size_error", **counts}
            return connection.answer({"error": error}, 400)
        stream = connection.stream = Stream(connection, wire, request, control, 1 / control.get("rate", self.rate))
        if wire.early_head:
            self.send_head(stream)
        if None in self.slots:
            self.start(stream)
        else:
            self.deferred.append(stream)
        if len(self.arrivals) < ARRIVALS_MAX:
            self.arrivals.append((self.running + len(self.deferred), self.begun_total))
        return None

    def start(self, stream):
        stream.slot = self.slots.index(None)
        self.slots[stream.slot] = stream
        self.send_head(stream)
        first_due = time.monotonic() + max(stream.control.get("prefill_s", 0), TICK_S)
        heapq.heappush(self.due, (first_due, next(self.order), stream))

    def send_head(self, stream):
        if not stream.has_head:
            stream.has_head = True
            stream.connection.transport.write(HEAD)

    def abort_requests(self, connection, body):
        """As vLLM does it: by the engine's own ids, also of those that wait; unknown ones are no fault."""
        self.bodies.append(json.loads(body))
        for name in json.loads(body)["request_ids"]:
            for stream in [*filter(None, self.slots), *self.deferred]:
                if (
                    stream.wire is VllmGenerate
                    and stream.wire.name(stream) == name
                    and not stream.control.get("no_abort")
                ):
                    if stream in self.deferred:
                        self.deferred.remove(stream)
                    self.finish(stream, b"", "abort")
        connection.answer({})

    def free(self, stream):
        if stream.slot is None:
            return
        self.slots[stream.slot] = stream.slot = None
        while self.deferred and None in self.slots:
            self.start(self.deferred.popleft())

    def aborted(self, stream):
        self.aborted_total += 1
        if stream.slot is None:
            self.deferred.remove(stream)
        elif not stream.control.get("hold_slots"):
            self.free(stream)

    def end(self, stream):
        stream.connection.stream = None
        self.free(stream)

    async def tick(self):
        due = self.due
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            while due and due[0][0] <= now:
                at, nth, stream = heapq.heappop(due)
                if stream.slot is None or stream.connection.transport.is_closing():
                    continue
                if self.step(stream):
                    heapq.heappush(due, (at + stream.interval_s * stream.control.get("burst", 1), nth, stream))

    def step(self, stream):
        """Send what is due now; False when nothing will follow."""
        if stream.connection.paused:
            return True
        data = b""
        for _ in range(stream.control.get("burst", 1)):
            if stream.control and (fault := self.fault_due(stream)) is not None:
                self.write(stream, data)
                return fault(self, stream)
            data += self.token_event(stream)
            if stream.sent == stream.left:
                self.finish(stream, data, "length")
                return False
        self.write(stream, data)
        return True

    def token_event(self, stream):
        stream.sent += 1
        self.chunks_total += 1
        self.begun_total += stream.sent == 1
        before = self.events(stream, stream.wire.opening(stream)) if stream.sent == 1 else b""
        return before + self.events(stream, [stream.wire.token(stream)])

    def events(self, stream, payloads):
        newline = b"\r\n" if stream.control.get("crlf") else b"\n"
        comment = b": comment" + newline * 2 if stream.control.get("comments") else b""
        frames = [comment + stream.wire.frame(payload) for payload in payloads]
        return b"".join(frame.replace(b"\n", newline) for frame in frames)

    def finish(self, stream, data, reason):
        opening = stream.wire.opening(stream) if stream.sent == 0 else []
        self.finished_total += 1
        self.write(stream, data + self.events(stream, [*opening, *stream.wire.ending(stream, reason)]))
        if stream.control.get("keep_open"):
            self.end(stream)
        else:
            self.close_body(stream)

    def close_body(self, stream):
        self.end(stream)
        stream.connection.send(LAST_CHUNK)

    def write(self, stream, data):
        if data:
            stream.connection.send(b"%x\r\n%b\r\n" % (len(data), data), stream.control.get("split", False))

    def fault_due(self, stream):
        if "say" in stream.control and stream.sent == stream.control.get("say_after", 0):
            return say
        for name, fault in FAULTS.items():
            if stream.control.get(name) == stream.sent:
                return fault
        return None


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


# Each fault says whether more chunks follow.


def die(engine, stream):
    engine.end(stream)
    stream.connection.transport.close()
    return False


def reset(engine, stream):
    engine.end(stream)
    stream.connection.reset()
    return False


def end_body(engine, stream):
    engine.close_body(stream)
    return False


def stall(engine, stream):
    return False


def report_error(engine, stream):
    error = b'{"type":"error","error":{"code":500,"message":"scripted secret","type":"server_error"}}'
    return end_with(engine, stream, engine.events(stream, [error]))


def send_garbage(engine, stream):
    return end_with(engine, stream, b'data: {"index":0,"content":\n\n')


def send_bad_utf8(engine, stream):
    engine.write(stream, engine.token_event(stream).replace(b" the", b"\xff\xc0\x80\xed\xa0\x80 the"))
    return True


def send_half_event(engine, stream):
    return end_with(engine, stream, engine.token_event(stream)[:40])


def send_long_line(engine, stream):
    return end_with(engine, stream, b"data: " + b"x" * LONG_LINE_BYTES)


def say(engine, stream):
    engine.write(stream, stream.control["say"].encode())
    return {"eof": end_body, "reset": reset, "open": stall}[stream.control.get("then", "eof")](engine, stream)


def end_with(engine, stream, data):
    engine.write(stream, data)
    return end_body(engine, stream)


def end_answer(engine, stream):
    engine.finish(stream, b"", "stop")
    return False


FAULTS = {
    "die_after": die,
    "reset_after": reset,
    "eof_after": end_body,
    "stall_after": stall,
    "error_after": report_error,
    "garbage_after": send_garbage,
    "bad_utf8_after": send_bad_utf8,
    "half_event_after": send_half_event,
    "long_line_after": send_long_line,
    "eos_after": end_answer,
}


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rate", type=float, default=25.0, help="chunks per second and stream")
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--context", type=int, default=8192, help="tokens a prompt must be shorter than")
    options = parser.parse_args()
    engine = FaultEngine(options.rate, options.slots, options.context)
    async with engine.serving(options.port):
        print(engine.port, flush=True)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
