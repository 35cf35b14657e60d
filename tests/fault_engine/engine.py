"""Owns the server: its slots, the queue behind them, one task that gives every stream its next chunk."""

import asyncio
import contextlib
import functools
import heapq
import itertools
import json
import time
from collections import deque

from .connection import Connection
from .faults import FAULTS, say
from .wires import WIRES, Stream, VllmGenerate

TICK_S = 0.002
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ARRIVALS_MAX = 500
LAST_CHUNK = b"0\r\n\r\n"


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
                    next_at = at + stream.interval_s * stream.control.get("burst", 1)
                    if stream.control.get("singly"):
                        next_at = max(next_at, now + TICK_S)
                    heapq.heappush(due, (next_at, nth, stream))

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
