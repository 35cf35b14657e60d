"""Owns the one thread that writes batches, and the way back to the event loop. Does not decide what or when."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

from streaming.store.threads import close_connection

from .batch import Batch

OnWritten = Callable[[Batch, Exception | None], None]


class CommitThread:
    """Writes one batch after another; ``on_written`` is called on the event loop with the error, if any.

    A thread of its own, not an executor: the way there and back is a quarter of what a small commit costs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_written: OnWritten):
        self._loop = loop
        self._on_written = on_written
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Write this batch next."""
        self._queue.put(batch)

    async def close(self, timeout_s: float) -> None:
        """Close the connection and end the thread, unless the database holds it for longer."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, timeout_s)

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            error = None
            try:
                batch.write()
            except Exception as raised:  # noqa: BLE001  the loop decides what it means
                error = raised
            self._loop.call_soon_threadsafe(self._on_written, batch, error)
        close_connection()
