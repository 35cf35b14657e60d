"""Owns a TCP wire between the browser and the site that can be cut or go dead. Knows nothing of HTTP."""

import contextlib
import selectors
import socket
import struct
import threading

RESET = struct.pack("ii", 1, 0)


class Wire:
    """Passes bytes from a port of its own to another. ``cut`` resets what is open.

    ``dead`` passes nothing on, ``losing_answers`` nothing back to the browser; ``refusing`` resets new connections.
    What lost bytes never goes on without them: TCP would not.
    """

    def __init__(self, port: int):
        self.dead = False
        self.losing_answers = False
        self.refusing = False
        self._lossy: set[socket.socket] = set()
        self._from_site: set[socket.socket] = set()
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Reset every connection, as a router that forgot them does."""
        with self._lock:
            while self._pairs:
                end = next(iter(self._pairs))
                for one in (end, self._pairs[end]):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                self._drop(end)

    def close(self) -> None:
        self._closed = True
        self._thread.join(5)
        self.cut()
        self._listener.close()

    def _pass_on(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select(0.1):
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj in self._pairs:
                        self._move(key.fileobj)

    def _accept(self) -> None:
        browser, _ = self._listener.accept()
        site = None
        with contextlib.suppress(OSError):
            site = None if self.refusing else socket.create_connection(("127.0.0.1", self._target))
        if site is None:
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            browser.close()
            return
        for one, other in ((browser, site), (site, browser)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)
        self._from_site.add(site)

    def _move(self, source: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = source.recv(65536)
        is_lost = self.dead or (self.losing_answers and source in self._from_site)
        if not data or (source in self._lossy and not is_lost):
            self._drop(source)
        elif is_lost:
            self._lossy.add(source)
        else:
            with contextlib.suppress(OSError):
                self._pairs[source].sendall(data)

    def _drop(self, end: socket.socket) -> None:
        other = self._pairs.pop(end, None)
        if other is None:
            return
        self._pairs.pop(other, None)
        for one in (end, other):
            self._from_site.discard(one)
            self._lossy.discard(one)
            self._selector.unregister(one)
            one.close()
