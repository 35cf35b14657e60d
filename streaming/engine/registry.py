"""Owns which Engine object serves which engine row: one per row and its fields. Opens no connection itself."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from streaming.engine.anthropic import AnthropicEngine
from streaming.engine.base import Engine
from streaming.engine.llamacpp import LlamaCppEngine
from streaming.engine.openai import OpenAIEngine
from streaming.engine.scripted import ScriptedEngine
from streaming.engine.tokenizer import TokenizerBundle
from streaming.engine.vllm import VllmEngine


class EngineRow(Protocol):
    """What of an engine's row decides how to talk to it."""

    pk: Any
    kind: str
    url: str
    model: str
    tokenizer: str
    options: dict[str, Any]
    capabilities: dict[str, Any]


MAKE: Mapping[str, Callable[[EngineRow], Engine]] = {
    "anthropic": lambda row: AnthropicEngine(row.url, row.model, row.options, row.capabilities),
    "llamacpp": lambda row: LlamaCppEngine(row.url, row.options),
    "openai": lambda row: OpenAIEngine(row.url, row.model, row.options, row.capabilities),
    "scripted": lambda row: ScriptedEngine(bundle_for(row), row.options),
    "vllm": lambda row: VllmEngine(row.url, row.options),
}

WITHOUT_TOKENIZER: Mapping[str, Callable[[], TokenizerBundle]] = {
    "anthropic": TokenizerBundle.estimating,
    "openai": TokenizerBundle.estimating,
    "scripted": TokenizerBundle.bytes_only,
}

FRESH_S = 2.0

_engines: dict[str, Engine] = {}
_bundles: dict[str, tuple[float, TokenizerBundle]] = {}


def engine_for(row: EngineRow) -> Engine:
    """The one engine of this row; another once a field of the row has changed."""
    key = _key(row)
    if key not in _engines:
        if row.kind not in MAKE:
            raise ValueError(f"no engine kind {row.kind!r}; there are {', '.join(sorted(MAKE))}")
        _engines[key] = MAKE[row.kind](row)
    return _engines[key]


def _key(row: EngineRow) -> str:
    fields = [str(row.pk), row.kind, row.url, row.model, row.tokenizer, row.options, row.capabilities]
    return json.dumps(fields, sort_keys=True)


async def close_unused(rows: Iterable[EngineRow]) -> None:
    """Close the engines of rows that have changed or gone, as soon as nothing runs there any more."""
    used = {_key(row) for row in rows}
    unused = [key for key, engine in _engines.items() if key not in used and engine.is_idle]
    for engine in [_engines.pop(key) for key in unused]:
        await engine.aclose()


def bundle_for(row: EngineRow) -> TokenizerBundle:
    """The row's tokenizer; for one that names none the byte tokenizer (scripted) or an estimate (chat endpoints).

    Files are looked at again after FRESH_S: each look is a system call or more, and a request makes several.
    """
    if not row.tokenizer and row.kind in WITHOUT_TOKENIZER:
        return WITHOUT_TOKENIZER[row.kind]()
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
