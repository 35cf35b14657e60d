"""Owns the applications of all connections: their start, end, and what outlives its connection. Not the process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from daphne.http_protocol import HTTPFactory
from daphne.server import Server as DaphneServer
from daphne.ws_protocol import WebSocketFactory
from twisted.internet.interfaces import IAddress

from chatsite.server.channel import Channel, Phase
from chatsite.server.limits import Limits
from chatsite.server.loop import reactor
from chatsite.server.request import Request
from chatsite.server.turns import Turns
from chatsite.server.websocket import WebSocket

logger = logging.getLogger("chatsite.server")

SWEEP_S = 1.0
KILL_AGAIN_S = 1.0

Application = Callable[..., Awaitable[None]]


@dataclass(slots=True)
class Connection:
    """One request (or WebSocket) and the application that answers it."""

    task: asyncio.Task[None] | None = None
    killer: asyncio.TimerHandle | None = None
    disconnected: bool = False


class ChannelFactory(HTTPFactory):
    """Makes our channels and knows which are open."""

    def __init__(self, server: "Server", limits: Limits) -> None:
        super().__init__(server)
        self.limits = limits
        self.timeOut = limits.headers_timeout_s
        self.channels: set[Channel] = set()
        self.emptied = asyncio.Event()

    @property
    def draining(self) -> bool:
        return bool(self.server.draining)

    def protocol(self) -> Channel:
        # Not Twisted's switch between HTTP/1 and HTTP/2: that is the proxy's part, and it costs a call per read.
        return Channel()

    def buildProtocol(self, addr: IAddress | None) -> Channel:
        channel: Channel = super().buildProtocol(addr)
        channel.requestFactory = Request  # type: ignore[assignment]  # a Twisted request, under daphne's untyped one
        return channel

    def log(self, request: Any) -> None:
        """No access log: the line would be made for nobody, and says less than a response's row."""

    def channel_opened(self, channel: Channel) -> None:
        self.channels.add(channel)
        self.emptied.clear()

    def channel_closed(self, channel: Channel) -> None:
        self.channels.discard(channel)
        if not self.channels:
            self.emptied.set()


class Server(DaphneServer):
    """daphne's server whose housekeeping is driven by events, not by a loop that an application can break."""

    def __init__(self, application: Application, limits: Limits) -> None:
        super().__init__(
            application,
            endpoints=["adopted"],  # daphne insists on one; ours is opened by the life cycle
            signal_handlers=False,
            request_buffer_size=64 * 1024,
            application_close_timeout=limits.close_application_s,
            server_name="",
        )
        self.limits = limits
        self.draining = False
        self.connections: dict[Any, Connection] = {}
        self.uploads = Turns(limits.uploads_at_once)
        self.loop: asyncio.AbstractEventLoop = reactor._asyncioEventloop
        self.http_factory = ChannelFactory(self, limits)
        self.ws_factory = self._websocket_factory()

    def _websocket_factory(self) -> WebSocketFactory:
        factory = WebSocketFactory(self, server=self.server_name)
        factory.protocol = WebSocket
        factory.setProtocolOptions(
            autoPingTimeout=self.limits.pong_s,
            allowNullOrigin=True,  # origins are judged by the application
            openHandshakeTimeout=self.limits.handshake_s,
            maxMessagePayloadSize=self.limits.max_message_bytes,
            maxFramePayloadSize=self.limits.max_message_bytes,
            failByDrop=False,  # who sends too much is told so
        )
        return factory

    # daphne's interface to its protocols

    def protocol_connected(self, protocol: Any) -> None:
        self.connections[protocol] = Connection()

    def protocol_disconnected(self, protocol: Any) -> None:
        connection = self.connections.get(protocol)
        if connection is None or connection.disconnected:
            return
        connection.disconnected = True
        if getattr(protocol, "became_websocket", False):
            self.http_factory.channel_closed(protocol.channel)
        if connection.task is None:
            self._forget(protocol)
        else:
            connection.killer = self.loop.call_later(self.application_close_timeout, self._kill, protocol, connection)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> asyncio.Queue[Any] | None:
        connection = self.connections.get(protocol)
        if connection is None or connection.disconnected:
            return None
        queue: asyncio.Queue[Any] = asyncio.Queue()
        scope.setdefault("asgi", {"version": "3.0"})
        connection.task = self.loop.create_task(self._call_application(scope, queue.get, protocol.send))
        connection.task.add_done_callback(partial(self._application_ended, protocol, connection))
        return queue

    async def _call_application(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self.application(scope, receive, send)

    # Ends of applications

    def _application_ended(self, protocol: Any, connection: Connection, task: asyncio.Task[None]) -> None:
        if connection.killer is not None:
            connection.killer.cancel()
        exception = None if task.cancelled() else task.exception()
        if exception is not None:
            logger.error("exception inside the application: %s", exception, exc_info=exception)
        connection.task = None
        if connection.disconnected:
            self._forget(protocol)
        else:
            # Also when it just returned: what nobody will finish must not look alive.
            protocol.handle_exception(exception)

    def _forget(self, protocol: Any) -> None:
        self.connections.pop(protocol, None)
        self.uploads.leave(protocol)

    def _kill(self, protocol: Any, connection: Connection) -> None:
        if connection.task is None:
            return
        logger.warning("application still runs %g s after its connection: killed", self.application_close_timeout)
        connection.task.cancel()
        connection.killer = self.loop.call_later(KILL_AGAIN_S, self._kill, protocol, connection)

    # The sweep

    def start_sweep(self) -> None:
        self.loop.call_later(min(SWEEP_S, self.limits.stuck_reader_s / 4), self.sweep)

    def sweep(self) -> None:
        """Look for stuck readers (and WebSockets to ping); whatever one of them does, the next look comes."""
        self.start_sweep()
        for protocol in list(self.connections):
            try:
                protocol.check_timeouts()
            except Exception:
                logger.exception("a connection could not be checked")

    # Leaving

    def close_idle(self) -> None:
        for channel in list(self.http_factory.channels):
            if not channel.has_request:
                channel.loseConnection()

    def close_half_sent(self) -> None:
        for channel in list(self.http_factory.channels):
            if channel.phase in (Phase.HEADERS, Phase.BODY):
                channel.transport.abortConnection()

    def describe_live(self) -> list[str]:
        """One line for each request that is still answered; safe to call from another thread."""
        live = [(protocol, c) for protocol, c in list(self.connections.items()) if c.task is not None]
        return [
            ("disconnected " if c.disconnected else "") + getattr(protocol, "describe", protocol.__repr__)()
            for protocol, c in live
        ]
