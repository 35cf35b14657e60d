"""Owns reading the form of an upload: its fields, its one file, and every cap on it. Stores nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest

from streaming.store.files import PIECE_BYTES, shortest

from .errors import ApiError
from .file_lifetime import LEAST_S, MOST_S

FORM = "multipart/form-data"
ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
FIELDS = ("purpose", ANCHOR, SECONDS)
NAME_CHARS = 255


@dataclass(frozen=True, slots=True)
class Upload:
    """A form that may be stored. ``pieces`` reads the file anew each time."""

    filename: str
    size_bytes: int
    keep: timedelta | None
    file: "UploadedFile[bytes]"

    def pieces(self) -> Iterator[bytes]:
        """The file, PIECE_BYTES at a time."""
        return iter(self.file.chunks(PIECE_BYTES))


def read(request: HttpRequest) -> Upload:
    """The form of ``POST /v1/files``. Parses up to BATCH_FILE_BYTES: not for the event loop. Raises ApiError."""
    if request.content_type != FORM:
        seen = (request.content_type or "nothing")[:80]
        raise ApiError(415, f"send {FORM}, not {seen}", code="unsupported_media_type")
    fields, file = _fields(request), _file(request)
    if fields.get("purpose") != "batch":
        raise _wrong("purpose", f"only batch (got {_seen(fields.get('purpose'))})")
    _check_size(file)
    name = "".join(letter for letter in file.name or "" if letter.isprintable())[:NAME_CHARS] or "batch.jsonl"
    return Upload(name, file.size or 0, _keep(fields), file)


def _fields(request: HttpRequest) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, values in request.POST.lists():
        if name not in FIELDS:
            raise _wrong(name.replace("\0", "")[:80], "unknown field")
        if len(values) > 1:
            raise _wrong(name, f"only once (got {len(values)})")
        fields[name] = values[0]
    return fields


def _file(request: HttpRequest) -> "UploadedFile[bytes]":
    files = [(name, file) for name, files in request.FILES.lists() for file in files]
    for name, _ in files:
        if name != "file":
            raise _wrong(name.replace("\0", "")[:80], "unknown field")
    if len(files) != 1:
        raise _wrong("file", f"exactly one file (got {len(files)})")
    return files[0][1]


def _check_size(file: "UploadedFile[bytes]") -> None:
    size, limit = file.size or 0, settings.BATCH_FILE_BYTES
    if size > limit:
        raise ApiError(413, f"file: at most {limit} bytes (got {size})", code="file_too_large", param="file")
    if not size:
        raise _wrong("file", "it is empty")
    lines, last = 0, b""
    for piece in file.chunks(PIECE_BYTES):
        lines, last = lines + piece.count(b"\n"), piece
    lines += not last.endswith(b"\n")
    if lines > settings.BATCH_FILE_LINES:
        raise _wrong("file", f"at most {settings.BATCH_FILE_LINES} lines (got {lines})")


def _keep(fields: dict[str, str]) -> timedelta | None:
    days = settings.FILE_TTL_DAYS
    return shortest(timedelta(days=days) if days else None, _asked(fields))


def _asked(fields: dict[str, str]) -> timedelta | None:
    if ANCHOR not in fields and SECONDS not in fields:
        return None
    if fields.get(ANCHOR) != "created_at":
        raise _wrong(ANCHOR, f"only created_at (got {_seen(fields.get(ANCHOR))})")
    text = fields.get(SECONDS, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10 and LEAST_S <= int(text) <= MOST_S):
        raise _wrong(SECONDS, f"a number from {LEAST_S} to {MOST_S} (got {_seen(text)})")
    return timedelta(seconds=int(text))


def _seen(value: Any) -> str:
    return "nothing" if value is None else repr(value[:80])


def _wrong(field: str, what: str) -> ApiError:
    return ApiError(400, f"{field}: {what}", code="invalid_request", param=field)
