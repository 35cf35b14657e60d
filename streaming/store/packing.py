"""Owns how token ids become bytes in a row. Knows no table."""

import sys
import zlib
from array import array
from collections.abc import Sequence


def pack_ids(token_ids: Sequence[int]) -> bytes | None:
    """Little-endian 32-bit ids; None for no ids."""
    if not token_ids:
        return None
    ids = array("I", token_ids)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tobytes()


def unpack_ids(data: bytes | memoryview | None) -> tuple[int, ...]:
    """The inverse of pack_ids."""
    if not data:
        return ()
    ids = array("I")
    ids.frombytes(bytes(data))
    if sys.byteorder == "big":
        ids.byteswap()
    return tuple(ids)


def pack_prompt(token_ids: Sequence[int]) -> bytes:
    """Prompt ids, compressed: prompts are long and are read only when an answer is carried on."""
    return zlib.compress(pack_ids(token_ids) or b"", 1)


def unpack_prompt(data: bytes | memoryview | None) -> list[int]:
    """The inverse of pack_prompt; a prompt that was dropped is an empty list."""
    return list(unpack_ids(zlib.decompress(bytes(data)))) if data else []
