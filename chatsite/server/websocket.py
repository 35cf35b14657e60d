"""Owns one WebSocket on the wire: backpressure, pings, bounds on what comes in, closing with a reason. No words."""

import asyncio
import logging
import time
from typing import Any

from daphne.ws_protocol import WebSocketProtocol

from chatsite.server.backpressure import Backpressure
from chatsite.server.limits import Limits
from chatsite.server.transport import SocketTransport

logger = logging.getLogger("chatsite.server")

FAILED, TOO_FAST, NORMAL = 1011, 1008, 1000

Message = dict[str, Any]


class WebSocket(Backpressure, WebSocketProtocol):
    """daphne's WebSocket whose `send` waits for the socket, and whose peer can fill no memory of ours."""

    transport: SocketTransport

    @property
    def limits(self) -> Limits:
        limits: Limits = self.factory.server_class.limits
        return limits

    def makeConnection(self, transport: SocketTransport) -> None:
        self.opened_s = self.pinged_s = time.monotonic()
        # Until now the connection's HTTP side listened to whether the socket takes more.
        transport.unregisterProducer()
        transport.registerProducer(self, True)
        super().makeConnection(transport)

    # Out

    async def send(self, message: Message) -> None:
        """ASGI's send: returns when the connection can take more. To a closed connection it does nothing."""
        if self.state not in (self.STATE_CONNECTING, self.STATE_OPEN):
            await asyncio.sleep(0)
            return
        self.handle_reply(message)
        if self._resumed is not None:
            await self._resumed.wait()

    def handle_reply(self, message: Message) -> None:
        if message["type"] == "websocket.close" and self.state == self.STATE_OPEN:
            self.close_with(message.get("code") or NORMAL, message.get("reason") or "")
        else:
            super().handle_reply(message)

    def close_with(self, code: int, reason: str = "") -> None:
        """Say why, then close. A peer that does not answer is dropped after the closing handshake's second."""
        self.muted = True
        self.sendCloseFrame(code=code, reasonUtf8=reason.encode()[:123])

    # In

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N803  autobahn's name
        if not self.muted and self.application_queue.qsize() >= self.limits.max_waiting_messages:
            self.close_with(TOO_FAST, "messages come faster than they are read")
        super().onMessage(payload, isBinary)

    def onPing(self, payload: bytes) -> None:
        """A peer that pings and does not take the answers must not fill our memory with them."""
        if self.transport.unsent_bytes > self.limits.max_message_bytes:
            self.dropConnection(abort=True)
        else:
            super().onPing(payload)

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:  # noqa: N803
        self.resumeProducing()
        # Also what we closed ourselves has an application that must learn that it is over.
        self.muted = False
        # A handshake that could not be read has none: the server was never told of it.
        if hasattr(self, "server"):
            super().onClose(wasClean, code, reason)

    # Called by the server

    def handle_exception(self, exception: BaseException | None) -> None:
        """The application ended and left the socket open; None when it just returned."""
        if self.state == self.STATE_CONNECTING and hasattr(self, "handshake_deferred"):
            super().handle_exception(exception)
            del self.handshake_deferred
            self.server.protocol_disconnected(self)
        elif self.state == self.STATE_OPEN:
            self.close_with(FAILED if exception else NORMAL)

    def check_timeouts(self) -> None:
        """Called by the sweep: refuse what is not accepted in time, cut off who takes nothing, ping the others."""
        now_s = time.monotonic()
        if self.state == self.STATE_CONNECTING:
            if now_s - self.opened_s > self.limits.handshake_s and hasattr(self, "handshake_deferred"):
                self.serverReject()
        elif self.transport.stalled_s() >= self.limits.stuck_reader_s:
            logger.warning("WebSocket stuck, cut off: %s", self.describe())
            self.dropConnection(abort=True)
        elif self.state == self.STATE_OPEN and now_s - self.pinged_s > self.limits.ping_s:
            self.pinged_s = now_s
            self._sendAutoPing()

    def duration(self) -> float:
        return time.monotonic() - self.opened_s

    def describe(self) -> str:
        """What a person wants to know about a live one."""
        client = "{}:{}".format(*self.client_addr) if self.client_addr else "unknown"
        path = self.path.decode("ascii", "replace")[:200]
        return f"{client} WebSocket {path} age_s={self.duration():.1f} unsent_bytes={self.transport.unsent_bytes}"
