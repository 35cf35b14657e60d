"""Owns which Engine object serves which engine row: one per row and its fields. Opens no connection itself."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from streaming.engine.base import Engine
from streaming.engine.llamacpp import LlamaCppEngine
from streaming.engine.scripted import ScriptedEngine
from streaming.engine.tokenizer import TokenizerBundle


class EngineRow(Protocol):
    """What of an engine's row decides how to talk to it."""

    pk: Any
    kind: str
    url: str
    tokenizer: str
    options: dict[str, Any]


MAKE: Mapping[str, Callable[[EngineRow], Engine]] = {
    "llamacpp": lambda row: LlamaCppEngine(row.url, row.options),
    "scripted": lambda row: ScriptedEngine(bundle_for(row), row.options),
}

FRESH_S = 2.0

_engines: dict[str, Engine] = {}
_bundles: dict[str, tuple[float, TokenizerBundle]] = {}


def engine_for(row: EngineRow) -> Engine:
    """The one engine of this row; another once a field of the row has changed."""
    key = json.dumps([str(row.pk), row.kind, row.url, row.tokenizer, row.options], sort_keys=True)
    if key not in _engines:
        if row.kind not in MAKE:
            raise ValueError(f"no engine kind {row.kind!r}; there are {', '.join(sorted(MAKE))}")
        _engines[key] = MAKE[row.kind](row)
    return _engines[key]


def bundle_for(row: EngineRow) -> TokenizerBundle:
    """The row's tokenizer; the byte tokenizer for scripted engines that name none.

    Files are looked at again after FRESH_S: each look is a system call or more, and a request makes several.
    """
    if not row.tokenizer and row.kind == "scripted":
        return TokenizerBundle.bytes_only()
    loaded_at, bundle = _bundles.get(row.tokenizer, (float("-inf"), None))
    if bundle is None or time.monotonic() - loaded_at > FRESH_S:
        bundle = TokenizerBundle.load(row.tokenizer)
        _bundles[row.tokenizer] = time.monotonic(), bundle
    return bundle


async def close_engines() -> None:
    """Release every engine's connections, also of rows that have changed since."""
    engines = list(_engines.values())
    _engines.clear()
    for engine in engines:
        await engine.aclose()
