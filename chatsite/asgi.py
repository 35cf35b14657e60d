"""Owns the ASGI application: static files, Django with its handover, sockets, and the process's start and end."""

import asyncio
import os
import re

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatsite.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402
from servestatic import ServeStaticASGI  # noqa: E402

from chatsite.django_handler import DjangoHandler  # noqa: E402
from chatsite.handover import HandoverApplication, Receive, Scope, Send  # noqa: E402
from chatsite.process_lock import LockHeldError, ProcessLock  # noqa: E402
from chatsite.sockets import SocketDoor  # noqa: E402
from streaming import consumers, ownership  # noqa: E402

#: Vite puts a hash of the content into the name: such a file never changes.
HASHED_NAME = re.compile(r"^.+[.-][0-9A-Za-z_-]{8}\.[a-z0-9]+$")


class Site:
    """The application that servers call.

    ``startup`` and ``shutdown`` are called by our launcher; under another server ASGI's lifespan does it, or the
    first request. On SQLite starting takes the lock that makes this the only web process of the database.
    """

    def __init__(self) -> None:
        self._http = ServeStaticASGI(
            HandoverApplication(DjangoHandler(), settings.SHARED_THREADS),
            root=settings.STATIC_ROOT if settings.STATIC_ROOT.is_dir() else None,
            prefix=settings.STATIC_URL,
            immutable_file_test=lambda path, url: HASHED_NAME.match(url) is not None,
        )
        self._sockets = SocketDoor()
        self._lock = ProcessLock(settings.DATA_DIR / "web.lock") if connection.vendor == "sqlite" else None
        self._started: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if self._started is None or not self._started.done():
            await self.startup()
        await (self._http if scope["type"] == "http" else self._sockets)(scope, receive, send)

    async def startup(self) -> None:
        """Start what serves streams; once, however often it is called. Raises LockHeldError."""
        if self._started is None:
            self._started = asyncio.create_task(self._start())
        await asyncio.shield(self._started)

    async def _start(self) -> None:
        if self._lock:
            try:
                self._lock.acquire()
            except LockHeldError as error:
                raise LockHeldError(f"{error}: with SQLite only one web process can serve; use PostgreSQL") from None
        await ownership.start_process(others_are_dead=self._lock is not None)
        consumers.start()

    async def shutdown(self, drain_s: float) -> None:
        """Let streams end for ``drain_s`` seconds, release the rest, close what is open."""
        if self._started and self._started.done() and not self._started.exception():
            # At once: while answers drain here, their pages are better told of changes elsewhere.
            consumers.stop()
            await ownership.stop_process(drain_s)
        if self._lock:
            self._lock.release()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            phase = message["type"].removeprefix("lifespan.")
            try:
                await (self.startup() if phase == "startup" else self.shutdown(settings.DRAIN_S))
            except Exception as error:  # noqa: BLE001  the server is told, whatever it is
                await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
                return
            await send({"type": f"lifespan.{phase}.complete"})
            if phase == "shutdown":
                return


application = Site()
