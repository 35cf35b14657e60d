"""Owns how a step knows that it was done already: a hash of what went in, written after the work, in one piece."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def digest(files: Iterable[Path], *extra: str) -> str:
    """One hash over the names and contents of files; each part is framed by its length."""
    total = hashlib.sha256()
    for part in extra:
        _add(total, part.encode())
    for path in sorted(files):
        _add(total, path.as_posix().encode())
        _add(total, path.read_bytes())
    return total.hexdigest()


def _add(total: "hashlib._Hash", part: bytes) -> None:
    total.update(b"%d:" % len(part))
    total.update(part)


def matches(stamp: Path, value: str) -> bool:
    return stamp.is_file() and stamp.read_text() == value


def write_whole(path: Path, content: str | bytes) -> None:
    """The file is there with all its content, or not there."""
    data = content.encode() if isinstance(content, str) else content
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
