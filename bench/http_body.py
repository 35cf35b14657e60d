"""Owns reading one HTTP/1.1 answer as it arrives: status, then body bytes without chunk framing. No client."""

from dataclasses import dataclass, field


class BadAnswer(Exception):
    """The bytes are not an HTTP answer that this reader understands."""


@dataclass(slots=True)
class BodyReader:
    status: int | None = None
    whole: bool = False  # the last chunk or the announced length has arrived
    _buffer: bytes = b""
    _chunked: bool = False
    _left_bytes: int | None = None  # of a body with a Content-Length
    _parts: list[bytes] = field(default_factory=list)

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        if self.status is None and not self._read_head():
            return b""
        if not self._chunked:
            return self._take_plain()
        while self._read_chunk():
            pass
        body = b"".join(self._parts)
        self._parts.clear()
        return body

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        self._buffer = self._buffer[end + 4 :]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        try:
            self.status = int(first.split(" ")[1])
        except (IndexError, ValueError) as error:
            raise BadAnswer(first[:100]) from error
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        if not self._chunked and "content-length" in headers:
            self._left_bytes = int(headers["content-length"])
        return True

    def _take_plain(self) -> bytes:
        body, self._buffer = self._buffer, b""
        if self._left_bytes is not None:
            self._left_bytes -= len(body)
            self.whole = self._left_bytes <= 0
        return body

    def _read_chunk(self) -> bool:
        """Move one whole chunk from the buffer to the body; False when it has not arrived yet."""
        if self.whole:
            return False
        line_end = self._buffer.find(b"\r\n")
        if line_end < 0:
            return False
        size = int(self._buffer[:line_end].split(b";")[0], 16)
        start, stop = line_end + 2, line_end + 2 + size
        if len(self._buffer) < stop + 2:
            return False
        if size == 0:
            self.whole = True
        self._parts.append(self._buffer[start:stop])
        self._buffer = self._buffer[stop + 2 :]
        return not self.whole
