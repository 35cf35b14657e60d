"""Owns the bytes between a connection and its socket: sends at once, counts what the peer took. Not HTTP."""

import fcntl
import socket
import struct
import termios
import time
from collections.abc import Iterable

from twisted.internet import main, tcp
from twisted.internet.error import ConnectionDone, ConnectionLost


class SocketTransport(tcp.Server):
    """Twisted's transport that writes straight to the socket while nothing waits.

    Twisted queues every write and lets the event loop call back: two changes of the poll set and a wrapped
    call for each chunk. Order is kept because a direct write happens only while both buffers are empty.
    """

    _held: list[bytes] | None = None
    written_bytes = 0
    _taken_bytes = 0
    _taken_at_s = 0.0

    def doRead(self) -> ConnectionLost | ConnectionDone | None:  # type: ignore[override]  # of an untyped mixin
        """As Twisted's, and looks whether the peer's reset came together with these bytes.

        uvloop tells of a reset once, and then never again of this socket. Bytes before it would be read then,
        the reset not, and a peer that is gone would be answered for as long as nothing is written to it.
        """
        lost: ConnectionLost | ConnectionDone | None = super().doRead()
        if lost is None and self.connected and self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return main.CONNECTION_LOST
        return lost

    def cork(self) -> bool:
        """Hold writes back, so that one message becomes one write. False when they are held already."""
        if self._held is not None:
            return False
        self._held = []
        return True

    def uncork(self) -> None:
        held, self._held = self._held, None
        if held:
            self.write(held[0] if len(held) == 1 else b"".join(held))

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        if self._held is not None:
            self._held.extend(iovec)
        else:
            self.write(b"".join(iovec))

    def write(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append(data)
            return
        if not self.connected or self._aborting:
            return
        self.written_bytes += len(data)
        if not self._tempDataLen and not self.dataBuffer:
            data = self._send(data)
        if data:
            super().write(data)

    def _send(self, data: bytes) -> bytes:
        """Write what the socket takes now; returns the rest. An error is left for the reactor to meet again."""
        try:
            sent = self.socket.send(data)
        except OSError:
            return data
        return data[sent:] if sent < len(data) else b""

    @property
    def unsent_bytes(self) -> int:
        """What waits in this process because the kernel would not take it."""
        return len(self.dataBuffer) - self.offset + self._tempDataLen

    def stalled_s(self) -> float:
        """For how long the peer has acknowledged nothing although bytes wait. Needs to be asked now and then."""
        now_s = time.monotonic()
        if not self.unsent_bytes:
            self._taken_at_s = now_s
            return 0.0
        taken_bytes = self.written_bytes - self.unsent_bytes - self._kernel_bytes()
        if taken_bytes != self._taken_bytes or not self._taken_at_s:
            self._taken_bytes, self._taken_at_s = taken_bytes, now_s
        return now_s - self._taken_at_s

    def _kernel_bytes(self) -> int:
        """Written but not acknowledged: a reader of 1 KB/s frees the socket only in large steps."""
        try:
            (queued,) = struct.unpack("i", fcntl.ioctl(self.fileno(), termios.TIOCOUTQ, bytes(4)))
        except OSError:
            return 0
        return int(queued)
