"""One engine object for each engine row, until the row changes."""

import pytest

from streaming.engine.llamacpp import LlamaCppEngine
from streaming.engine.registry import bundle_for, close_engines, engine_for
from streaming.engine.scripted import ScriptedEngine
from streaming.engine.tokenizer import TokenizerBundle, TokenizerError
from streaming.models import Engine


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


def test_only_scripted_engines_have_a_tokenizer_without_naming_one():
    assert bundle_for(row()) is TokenizerBundle.bytes_only()
    with pytest.raises(TokenizerError):
        bundle_for(row(kind="llamacpp"))
