"""Owns one HTTP request and its response on the wire: backpressure, failure, stuck readers. Not the application."""

import asyncio
import logging
import time
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any

from daphne.http_protocol import WebRequest
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from chatsite.server.backpressure import Backpressure
from chatsite.server.channel import Channel, error_body

if TYPE_CHECKING:
    from chatsite.server.server import Server

logger = logging.getLogger("chatsite.server")

# An application that always finds its socket writable lets others run after this many bytes.
BURST_BYTES = 64 * 1024
JSON_PATHS = (b"/v1/", b"/api/")
ERRORS = {500: ("server_error", "internal"), 503: ("server_error", "unavailable")}
RETRY_AFTER_S = 1

Message = dict[str, Any]


class Request(Backpressure, WebRequest):
    """daphne's request whose `send` waits for the socket, so that a slow reader costs a bounded memory."""

    channel: Channel
    server: "Server"
    content: BytesIO | SpooledTemporaryFile[bytes]
    path: bytes | None
    responseHeaders: Headers

    def __init__(self, channel: Channel, queued: int) -> None:
        self.started_s = time.monotonic()
        self._burst_bytes = 0
        self._body_bytes = 0
        # Forms are Django's to parse; Twisted would do it once more, on the event loop.
        super().__init__(channel, queued, parsePOSTFormSubmission=False)

    # The request's body

    def gotLength(self, length: int | None) -> None:
        # Bounded by the cap, so memory will do; Twisted would use a file on disk, as we do for uploads.
        self.content = BytesIO()
        if self.channel.max_body_bytes > self.channel.limits.max_body_bytes:
            # Twisted closes it with the request.
            self.content = SpooledTemporaryFile(max_size=self.channel.limits.max_body_bytes)  # noqa: SIM115

    def handleContentChunk(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > self.channel.max_body_bytes:
            self.content = BytesIO()
            self.channel.refuse_body(f"at least {self._body_bytes}")
        else:
            super().handleContentChunk(data)

    def process(self) -> None:
        """A long body stays on disk until it may be read into memory."""
        if self._body_bytes > self.channel.limits.max_body_bytes:
            self.server.uploads.enter(self, super().process)
        else:
            super().process()

    # The response

    async def send(self, message: Message) -> None:
        """ASGI's send: returns when the connection can take more. To a closed connection it does nothing."""
        if self.is_over:
            await asyncio.sleep(0)  # an application that does nothing but send can still be cancelled here
            return
        self.handle_reply(message)
        if self._resumed is not None:
            await self._resumed.wait()
        elif self._burst_bytes > BURST_BYTES:
            self._burst_bytes = 0
            await asyncio.sleep(0)

    @property
    def became_websocket(self) -> bool:
        """daphne hands the transport on; the channel is then never told that it is over."""
        return self.transport is None and self.channel is not None

    @property
    def is_over(self) -> bool:
        return bool(self.finished) or self.channel is None

    def handle_reply(self, message: Message) -> None:
        if self.is_over:
            return
        if self.chunked and self.startedWriting and message.get("more_body") and message.get("body"):
            self._write_piece(message["body"])
            return
        transport = self.channel.transport
        # Not again when a pipelined request begins inside the finish of the one before it.
        corked = transport.cork()
        try:
            if self._response_started and message.get("type") == "http.response.body":
                self._write_body(message)
            else:
                self._start_response(message)
        finally:
            if corked:
                transport.uncork()

    def _start_response(self, message: Message) -> None:
        self.server.check_headers_type(message)
        super().handle_reply(message)  # validates and keeps status and headers; they go out with the first body
        if self.server.draining:
            self.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        if self.producer is None:
            self.registerProducer(self, True)

    def _write_piece(self, data: bytes) -> None:
        """As Twisted would write it, in one go: nothing is done more often here."""
        self._burst_bytes += len(data)
        self.sentLength += len(data)
        self.channel.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _write_body(self, message: Message) -> None:
        data = message.get("body", b"")
        self._burst_bytes += len(data)
        self.write(data)
        if not message.get("more_body", False):
            self.finish()

    def finish(self) -> None:
        if self.producer is not None:
            self.unregisterProducer()
        self.resumeProducing()
        super().finish()

    # Endings that nobody planned

    def connectionLost(self, reason: Failure) -> None:
        self.resumeProducing()
        super().connectionLost(reason)

    def check_timeouts(self) -> None:
        """Called by the sweep: a reader that takes nothing is cut off; its application gets a disconnect."""
        if self.is_over:
            return
        stalled_s = self.channel.transport.stalled_s()
        if stalled_s >= self.channel.limits.stuck_reader_s:
            logger.warning("reader stuck for %.1f s, cut off: %s", stalled_s, self.describe())
            self.abort()

    def handle_exception(self, exception: BaseException | None) -> None:
        """The application ended without ending its response: say so while that is possible, else break it off."""
        if self.is_over:
            return
        if self.startedWriting:
            self.abort()
            return
        self._response_started = False
        self.responseHeaders = Headers()
        if exception is None and self.server.draining:
            # It did not fail, it was sent away: another process, or the next one, will answer.
            self.basic_error(503, b"Service Unavailable", "The server is stopping; ask again.")
        else:
            self.basic_error(500, b"Internal Server Error", "The server failed to answer this request.")

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        if not (self.path or b"").startswith(JSON_PATHS):
            super().basic_error(status, status_text, body)
            return
        kind, code = ERRORS.get(status, ("invalid_request_error", "bad_request"))
        payload = error_body(body, kind=kind, code=code)
        headers = [(b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(payload))]
        if status == 503:
            headers.append((b"Retry-After", b"%d" % RETRY_AFTER_S))
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": payload})

    def abort(self) -> None:
        """A reset: no reader can take it for a complete answer, as it could a clean close."""
        self.channel.transport.abortConnection()

    # What a person wants to know about a live one

    def duration(self) -> float:
        return time.monotonic() - self.started_s

    def describe(self) -> str:
        client = "{}:{}".format(*self.client_addr) if self.client_addr else "unknown"
        response_id = (self.responseHeaders.getRawHeaders("x-response-id") or ["-"])[0]
        unsent_bytes = 0 if self.is_over else self.channel.transport.unsent_bytes
        return (
            f"{client} {self.method.decode('ascii', 'replace')} {self.shown_path} response={response_id} "
            f"age_s={self.duration():.1f} sent_bytes={self.sentLength} unsent_bytes={unsent_bytes}"
        )

    @property
    def shown_path(self) -> str:
        """Outside the API only the first segment: the rest may be a login token."""
        path = (self.path or b"-").decode("ascii", "replace")[:200]
        return path if (self.path or b"").startswith(JSON_PATHS) else "/".join(path.split("/")[:2])
