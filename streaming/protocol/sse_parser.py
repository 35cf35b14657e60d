"""Owns reading an event stream (WHATWG rules) from bytes cut anywhere. Does not look into what the events say."""

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One dispatched event. ``id`` is the last one seen, which may have come with an earlier event."""

    event: str
    data: str
    id: str


class SSEParseError(ValueError):
    """The stream holds a line, or one event's data, longer than the cap."""


class SSEParser:
    """Feed it bytes, it gives events back. Work is linear in the bytes, memory bounded by the cap.

    Lines are split as bytes, which cannot cut a character: CR and LF never stand inside a UTF-8
    sequence. A CR ends its line at once; an LF that follows, maybe in the next read, is swallowed.
    """

    def __init__(self, max_line_bytes: int = 8 * 2**20) -> None:
        self._max_bytes = max_line_bytes
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._swallow_lf = False
        self._at_start = True
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._event = b""
        self._id = b""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the events that are complete now."""
        if self._swallow_lf and data:
            self._swallow_lf = False
            data = data.removeprefix(b"\n")
        if not data:
            return []
        lines = data.splitlines()
        rest = b"" if data[-1] in b"\r\n" else lines.pop()
        self._swallow_lf = data[-1] == 0x0D
        if lines and self._partial:
            lines[0] = b"".join((*self._partial, lines[0]))
            self._partial.clear()
            self._partial_bytes = 0
        events = self._take(lines)
        if rest:
            self._keep(rest)
        return events

    def finish(self) -> bool:
        """The stream is over: drop an event that was not completed. Returns whether there was one."""
        unfinished = bool(self._partial or self._data)
        self._partial.clear()
        self._partial_bytes = 0
        self._forget_event()
        return unfinished

    def _keep(self, rest: bytes) -> None:
        self._partial.append(rest)
        self._partial_bytes += len(rest)
        self._check(self._partial_bytes)

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._max_bytes:
            raise SSEParseError(f"more than {self._max_bytes} bytes in one line or event")

    def _take(self, lines: list[bytes]) -> list[ServerSentEvent]:
        events = []
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        for line in lines:
            if line:
                self._check(len(line))
                self._field(line)
            elif self._data:
                events.append(self._dispatch())
            else:
                self._event = b""
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            self._check(self._data_bytes - 1)
        elif name == b"event":
            self._event = value
        elif name == b"id" and b"\0" not in value:
            self._id = value

    def _dispatch(self) -> ServerSentEvent:
        event = ServerSentEvent(
            self._event.decode("utf-8", "replace") or "message",
            b"\n".join(self._data).decode("utf-8", "replace"),
            self._id.decode("utf-8", "replace"),
        )
        self._forget_event()
        return event

    def _forget_event(self) -> None:
        self._data.clear()
        self._data_bytes = 0
        self._event = b""
