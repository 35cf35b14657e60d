"""Owns the sizes and times that bound one connection and the process's end; does not read settings."""

from dataclasses import dataclass

# Room after the drain for cancelling, flushing and closing; then the process is ended by force.
EXIT_MARGIN_S = 6.0
# How long half-sent requests and cancelled applications may still take once we are leaving.
LEAVE_S = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may cost. Every time is measured by a monotonic clock."""

    max_body_bytes: int = 2 * 1024 * 1024
    # The one path that takes longer bodies, those of files; they wait on disk for their end.
    upload_path: str = ""
    max_upload_bytes: int = 2 * 1024 * 1024
    # So many of those are in memory, several times over; strangers can send them too.
    uploads_at_once: int = 4
    # From the first byte we could expect to the last header; from there to the last byte of the body.
    headers_timeout_s: float = 20.0
    body_timeout_s: float = 60.0
    # Above the 60 s after which nginx drops an idle upstream connection, so that nginx is always the one to close.
    keep_alive_s: float = 75.0
    # A peer that acknowledges nothing for this long while bytes wait is gone.
    stuck_reader_s: float = 60.0
    # How long a refused body is read and thrown away, so that the client sees the answer and not a reset.
    linger_s: float = 5.0
    # An application gets this long to end after its connection did.
    close_application_s: float = 10.0
    drain_s: float = 20.0
    # WebSockets: what a peer may send at once and leave unread, how long it may take to open, how it shows life.
    max_message_bytes: int = 16 * 1024
    max_waiting_messages: int = 64
    handshake_s: float = 10.0
    ping_s: float = 20.0
    pong_s: float = 30.0

    def body_bytes(self, target: bytes) -> int:
        """How long the body of a request may be, by what its first line asks for."""
        is_upload = self.upload_path and target.partition(b"?")[0] == self.upload_path.encode()
        return self.max_upload_bytes if is_upload else self.max_body_bytes

    @property
    def user_timeout_ms(self) -> int:
        """For TCP_USER_TIMEOUT: later than our own judgement, which counts slow progress as progress."""
        return int(self.stuck_reader_s * 1500)
