"""Owns one client connection: its timers, the body cap and refusals before a request exists. Not the response."""

import json
from enum import Enum, auto
from typing import TYPE_CHECKING

from twisted.internet.protocol import connectionDone
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure
from twisted.web import http

from chatsite.server.limits import Limits
from chatsite.server.transport import SocketTransport

if TYPE_CHECKING:
    from chatsite.server.server import ChannelFactory


class Phase(Enum):
    HEADERS = auto()  # a request is expected or half read
    BODY = auto()
    HANDLING = auto()  # an application has it; no timer of ours runs
    IDLE = auto()  # kept alive
    REFUSED = auto()  # answered; what still comes in is thrown away
    CLOSING = auto()  # the last bytes are being flushed


def error_body(message: str, *, kind: str, code: str) -> bytes:
    """The one error shape of our API."""
    return json.dumps({"error": {"message": message, "type": kind, "code": code, "param": None}}).encode()


class Channel(http.HTTPChannel):
    """Twisted's parser with absolute timers: bytes that trickle in do not prolong them."""

    factory: "ChannelFactory"
    transport: SocketTransport  # type: ignore[assignment]  # narrower than Twisted's interface
    phase = Phase.HEADERS
    persistent: int = 1

    @property
    def limits(self) -> Limits:
        return self.factory.limits

    @property
    def max_body_bytes(self) -> int:
        """Of the request whose first line has come."""
        target: bytes = self._path  # type: ignore[assignment]  # Twisted's note of it says otherwise
        return self.limits.body_bytes(target)

    @property
    def has_request(self) -> bool:
        """Whether at least the first line of a request has come and its response is not finished."""
        return bool(self.requests)

    def connectionMade(self) -> None:
        self.factory.channel_opened(self)
        super().connectionMade()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self.factory.channel_closed(self)

    def dataReceived(self, data: bytes) -> None:
        # Not HTTPChannel's, which would restart the timer with every byte.
        if self.phase is not Phase.REFUSED:
            LineReceiver.dataReceived(self, data)

    def lineReceived(self, line: bytes) -> None:
        if self.phase is Phase.IDLE:
            self._enter(Phase.HEADERS, self.limits.headers_timeout_s)
        super().lineReceived(line)

    def headerReceived(self, line: bytes) -> bool:
        try:
            return bool(super().headerReceived(line))
        except ValueError:
            # A length of more digits than Python reads as a number: Twisted takes it for one.
            self._respondToBadRequestAndDisconnect()
            return False

    def allHeadersReceived(self) -> None:
        if self.length is not None and self.length > self.max_body_bytes:
            self.refuse_body(f"{self.length}")
            return
        super().allHeadersReceived()
        if self.length != 0:
            self._enter(Phase.BODY, self.limits.body_timeout_s)

    def rawDataReceived(self, data: bytes) -> None:
        if self.phase is not Phase.REFUSED:
            super().rawDataReceived(data)

    def allContentReceived(self) -> None:
        if self.phase is not Phase.REFUSED:
            self.phase = Phase.HANDLING
            super().allContentReceived()

    def requestDone(self, request: http.Request) -> None:
        if self.factory.draining:
            self.persistent = 0
        self.phase = Phase.IDLE
        self._savedTimeOut = self.limits.keep_alive_s  # HTTPChannel arms this timer when it waits again
        super().requestDone(request)

    def loseConnection(self) -> None:
        self._enter(Phase.CLOSING, self.limits.stuck_reader_s)
        super().loseConnection()

    def timeoutConnection(self) -> None:
        """A phase took too long; a last response that is still moving out is not cut."""
        if self.transport.unsent_bytes and self.transport.stalled_s() < self.limits.stuck_reader_s:
            self.setTimeout(self.limits.stuck_reader_s)
        elif self.phase is Phase.BODY:
            self.refuse(408, "body_timeout", f"The request body took longer than {self.limits.body_timeout_s:g} s.")
        elif self.phase in (Phase.REFUSED, Phase.CLOSING):
            self.transport.abortConnection()
        else:
            self.loseConnection()

    def refuse_body(self, seen: str) -> None:
        limit = self.max_body_bytes
        self.refuse(413, "body_too_large", f"The request body has {seen} bytes; the limit is {limit} bytes.")

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer before the request is complete, then read on for a while: a reset would eat the answer."""
        body = error_body(message, kind="invalid_request_error", code=code)
        head = (
            f"HTTP/1.1 {status} {http.RESPONSES[status].decode()}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._enter(Phase.REFUSED, self.limits.linger_s)
        self.transport.loseWriteConnection()

    def _enter(self, phase: Phase, timeout_s: float) -> None:
        self.phase = phase
        self.setTimeout(timeout_s)
