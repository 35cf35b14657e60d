"""Owns the life of the process: startup, listening, serving, draining, exit code. Not the connections."""

import asyncio
import gc
import logging
import socket
from collections.abc import Awaitable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import FilteringLogObserver, LogLevel, LogLevelFilterPredicate, STDLibLogObserver, globalLogBeginner

from chatsite.server.limits import EXIT_MARGIN_S, LEAVE_S, Limits
from chatsite.server.listener import listen, url_of
from chatsite.server.loop import reactor
from chatsite.server.server import Server
from chatsite.server.signals import SignalThread
from chatsite.server.transport import SocketTransport

logger = logging.getLogger("chatsite.server")

#: So many new objects before the garbage collector looks at them, and so many looks before one at older ones. After
#: Python's 700 it would look at each event that a tail keeps. All but the newest are looked at after 10,000 and
#: 100,000 new ones, where Python has 7,000 and 70,000: what ended streams leave in cycles stays hardly longer.
COLLECT_AFTER = (5_000, 2, 10)


class Lifecycle:
    """Runs one server from the application's startup to an exit code."""

    def __init__(self, server: Server, sock: socket.socket, limits: Limits) -> None:
        self.server = server
        self.sock = sock
        self.limits = limits
        self.loop: asyncio.AbstractEventLoop = server.loop
        self.exit_code = 0
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def run(self) -> int:
        """Serve until a signal, an error or a deadline ends it; returns the exit code."""
        log_twisted_errors()
        SignalThread(
            stop=self._stop_from_thread,
            describe=self.server.describe_live,
            deadline_s=self.limits.drain_s + EXIT_MARGIN_S,
        ).start()
        reactor.callWhenRunning(self._begin)
        reactor.run(installSignalHandlers=False)
        return self.exit_code

    def _stop_from_thread(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)

    def _begin(self) -> None:
        self._task = self.loop.create_task(self._live())

    async def _live(self) -> None:
        try:
            if await self._start():
                await self._stop.wait()
                await self._leave()
        except Exception:
            logger.exception("the server failed")
            self.exit_code = 1
        finally:
            reactor.stop()

    # In

    async def _start(self) -> bool:
        """The application first, then the door. False when there is nothing to serve."""
        try:
            if not await self._startup():
                return False
            self.port = self._open()
        except Exception as error:
            logger.error("startup failed: %s: %s", type(error).__name__, error)
            logger.debug("startup failed", exc_info=error)
            self.exit_code = 1
            await self._within(LEAVE_S, self._hook("shutdown", 0.0))
            return False
        freeze_memory()
        self.server.start_sweep()
        logger.info("listening on %s", url_of(self.sock))
        return True

    async def _startup(self) -> bool:
        """False when a signal came before the application was ready."""
        starting = asyncio.ensure_future(self._hook("startup"))
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not starting.done():
            starting.cancel()
            return False
        await starting
        return True

    def _open(self) -> Any:
        listen(self.sock, self.limits)
        port = reactor.adoptStreamPort(self.sock.fileno(), self.sock.family, self.server.http_factory)
        port.transport = SocketTransport
        return port

    # Out

    async def _leave(self) -> None:
        """Each step is bounded, and the signal thread bounds their sum."""
        ends_s = self.loop.time() + self.limits.drain_s
        await self._close_door()
        await self._within(self.limits.drain_s + LEAVE_S, self._hook("shutdown", self.limits.drain_s))
        await self._flush(max(ends_s - self.loop.time(), LEAVE_S / 2))
        await self._cancel_rest()

    async def _close_door(self) -> None:
        self.server.draining = True
        closing: Deferred[None] = self.port.stopListening()
        self.sock.close()
        await closing.asFuture(self.loop)
        self.server.close_idle()
        self.loop.call_later(LEAVE_S, self.server.close_half_sent)

    async def _flush(self, within_s: float) -> None:
        """Wait until the last response is out and its connection closed."""
        if self.server.http_factory.channels:
            await self._within(within_s, self.server.http_factory.emptied.wait())

    async def _cancel_rest(self) -> None:
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for line in self.server.describe_live():
            logger.warning("cut off: %s", line)
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=LEAVE_S)

    async def _within(self, limit_s: float, step: Awaitable[Any]) -> None:
        """A step that fails or hangs does not keep the next from running."""
        task = asyncio.ensure_future(step)
        await asyncio.wait({task}, timeout=limit_s)
        if not task.done():
            logger.warning("a step of leaving took longer than %.1f s: cancelled", limit_s)
            task.cancel()
        elif not task.cancelled() and (error := task.exception()):
            logger.error("a step of leaving failed: %s", error, exc_info=error)

    async def _hook(self, name: str, *arguments: object) -> None:
        """The application's own hook, if it has one; daphne does not speak the ASGI lifespan protocol."""
        hook = getattr(self.server.application, name, None)
        if hook is not None:
            await hook(*arguments)


def freeze_memory() -> None:
    """What was imported stays: the garbage collector, which stops every stream while it looks, need not look at it.

    Nor need it look as often as in a program that makes few objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def log_twisted_errors() -> None:
    """Twisted's errors into our log, the rest of its chatter nowhere."""
    errors_only: Any = LogLevelFilterPredicate(LogLevel.error)
    to_log: Any = STDLibLogObserver("twisted")
    observer: Any = FilteringLogObserver(to_log, [errors_only])
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False, discardBuffer=True)
