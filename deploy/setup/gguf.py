"""Owns reading the key/value part of a GGUF file, with bounds for hostile ones. Tensors are never looked at.

Layout (GGUF 2 and 3, little endian): magic, version u32, tensor count u64, pair count u64, then pairs of
key string, type u32, value. A string is a u64 length and bytes; an array is a u32 element type, a u64 count, elements.
"""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

Value = int | float | bool | str | list["Value"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_PAIRS = 65_536
MAX_STRING_BYTES = 4 * 2**20
MAX_ARRAY_ITEMS = 4 * 2**20
MAX_METADATA_BYTES = 256 * 2**20
MAX_DEPTH = 4

STRING, ARRAY = 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING_HEAD_BYTES = 8
ARRAY_HEAD_BYTES = 12


class GGUFError(Exception):
    """The file is no GGUF that we read; says what is wrong and at which byte."""


def read_metadata(path: Path) -> dict[str, Value]:
    """All key/value pairs, or GGUFError. Never reads or allocates more than the file can back."""
    with path.open("rb") as file:
        return _Reader(file, os.fstat(file.fileno()).st_size).pairs()


class _Reader:
    def __init__(self, file: BinaryIO, size_bytes: int):
        self._file = file
        self._end = min(size_bytes, MAX_METADATA_BYTES)
        self._at = 0

    def pairs(self) -> dict[str, Value]:
        if self._take(len(MAGIC)) != MAGIC:
            raise self._error("not a GGUF file")
        version = self._integer("<I")
        if version not in VERSIONS:
            raise self._error(f"GGUF version {version} is not one of {VERSIONS}")
        self._integer("<Q")  # the number of tensors
        count = self._bounded(self._integer("<Q"), MAX_PAIRS, "pairs")
        found: dict[str, Value] = {}
        for _ in range(count):
            key = self._string()
            if key in found:
                raise self._error(f"the key {key[:80]!r} stands there twice")
            found[key] = self._value(self._integer("<I"), MAX_DEPTH)
        return found

    def _value(self, kind: int, depth: int) -> Value:
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            return self._array(depth)
        return self._scalars(kind, 1)[0]

    def _array(self, depth: int) -> Value:
        if depth == 0:
            raise self._error("arrays are nested too deep")
        kind = self._integer("<I")
        count = self._bounded(self._integer("<Q"), MAX_ARRAY_ITEMS, "array items")
        if kind not in (STRING, ARRAY):
            return self._scalars(kind, count)
        self._backed(count * (STRING_HEAD_BYTES if kind == STRING else ARRAY_HEAD_BYTES))
        read: Callable[[], Value] = self._string if kind == STRING else lambda: self._array(depth - 1)
        return [read() for _ in range(count)]

    def _scalars(self, kind: int, count: int) -> list[Value]:
        form = SCALARS.get(kind)
        if form is None:
            raise self._error(f"unknown value type {kind}")
        data = self._take(count * struct.calcsize(form))
        return [value for (value,) in struct.iter_unpack(form, data)]

    def _string(self) -> str:
        length = self._bounded(self._integer("<Q"), MAX_STRING_BYTES, "bytes in a string")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise self._error("a string is not UTF-8") from error

    def _integer(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def _take(self, count: int) -> bytes:
        self._backed(count)
        data = self._file.read(count)
        if len(data) != count:
            raise self._error("the file ends too early")
        self._at += count
        return data

    def _backed(self, count: int) -> None:
        if count > self._end - self._at:
            raise self._error(f"{count} more bytes are announced than the file or the limit has room for")

    def _bounded(self, count: int, limit: int, what: str) -> int:
        if count > limit:
            raise self._error(f"{count} {what}: more than {limit}")
        return count

    def _error(self, text: str) -> GGUFError:
        return GGUFError(f"{text} (at byte {self._at})")
