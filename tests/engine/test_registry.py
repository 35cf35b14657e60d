"""One engine object for each engine row, until the row changes."""

import asyncio

import pytest

from streaming.engine.base import EngineError
from streaming.engine.llamacpp import LlamaCppEngine
from streaming.engine.registry import bundle_for, close_engines, close_unused, engine_for
from streaming.engine.scripted import ScriptedEngine
from streaming.engine.tokenizer import TokenizerBundle, TokenizerError
from streaming.models import Engine
from tests.engine.conftest import ask, collect


@pytest.fixture(autouse=True)
async def closed():
    await close_engines()
    yield
    await close_engines()


def row(**fields):
    return Engine(**{"pk": 1, "name": "e", "kind": "scripted", "model": "m", **fields})


async def test_a_row_has_one_engine_until_a_field_that_matters_changes():
    engine = engine_for(row())
    assert engine_for(row()) is engine
    assert engine_for(row(slots=9, enabled=False)) is engine
    assert engine_for(row(options={"mode": "text"})) is not engine
    assert engine_for(row(pk=2)) is not engine


async def test_the_kind_decides_the_class():
    assert type(engine_for(row())) is ScriptedEngine
    assert type(engine_for(row(kind="llamacpp", url="http://127.0.0.1:9"))) is LlamaCppEngine
    with pytest.raises(ValueError, match="no engine kind 'x'; there are anthropic, llamacpp, openai, scripted, vllm"):
        engine_for(row(kind="x"))


async def test_every_kind_that_a_row_can_have_has_a_class():
    for kind in Engine.Kind.values:
        assert engine_for(row(kind=kind, url="http://127.0.0.1:9")) is not None


async def test_closing_forgets_the_engines_and_their_connections(fault):
    engine = engine_for(row(kind="llamacpp", url=fault.url))
    assert await engine.healthy()
    await close_engines()
    assert engine_for(row(kind="llamacpp", url=fault.url)) is not engine


async def test_an_engine_whose_row_has_changed_is_closed_once_nothing_runs_there(fault):
    before, after = (
        row(kind="llamacpp", url=fault.url),
        row(kind="llamacpp", url=fault.url, options={"markers": "think"}),
    )
    old = engine_for(before)
    answer = old.generate(ask(max_tokens=10_000))
    await anext(answer)
    session = old._upstream._session
    await close_unused([after])
    assert engine_for(before) is old, "an answer runs there"
    assert await anext(answer)
    await answer.aclose()
    await close_unused([after])
    assert session.closed
    new = engine_for(after)
    await close_unused([after])
    assert engine_for(after) is new
    assert engine_for(before) is not old


@pytest.mark.parametrize("kind", ["llamacpp", "openai", "anthropic", "vllm"])
async def test_what_was_asked_in_vain_leaves_nothing_open(kind, fault):
    engine = engine_for(row(kind=kind, url=fault.url))
    fault.set_control({"status": 500})
    with pytest.raises(EngineError):
        await collect(engine, ask())
    with pytest.raises(EngineError):
        await engine._upstream.ask("/nowhere")
    if kind == "vllm":
        await asyncio.gather(*engine._aborts.values())
    assert engine.is_idle


def test_only_scripted_engines_have_a_tokenizer_without_naming_one():
    assert bundle_for(row()) is TokenizerBundle.bytes_only()
    with pytest.raises(TokenizerError):
        bundle_for(row(kind="llamacpp"))
