"""Owns what the engine tests share: requests, the fault engine, the real llama.cpp worker, the demo model's files."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from contextlib import aclosing, contextmanager

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from streaming.engine.base import EngineError, GenerateRequest, Sampling
from streaming.engine.llamacpp import LlamaCppEngine
from tests.child import ROOT
from tests.fault_engine import FaultEngine
from tests.stream.conftest import bench, successor, user  # noqa: F401  for tests of the whole stack
from tests.stream.toolbox import toolbox  # noqa: F401

NUMBERS = itertools.count(1)
#: What the fault engine does after three chunks, and the reason that follows, whatever the wire.
BREAKS = [
    ({"die_after": 3}, "upstream_lost"),
    ({"reset_after": 3}, "upstream_lost"),
    ({"eof_after": 3}, "upstream_lost"),
    ({"half_event_after": 3}, "upstream_lost"),
    ({"error_after": 3}, "upstream_error"),
    ({"garbage_after": 3}, "upstream_protocol"),
    ({"long_line_after": 3}, "upstream_protocol"),
]


def ask(prompt_ids=(1, 2, 3), text="hello", produced_tokens=0, response_id=None, **sampling):
    """A request of a response of its own, unless one is named."""
    sampling.setdefault("max_tokens", 1000)
    return GenerateRequest(
        request_id=f"{response_id or f'resp_{next(NUMBERS)}'}-1",
        prompt_ids=tuple(prompt_ids),
        messages=[{"role": "user", "content": text}],
        sampling=Sampling(**sampling),
        produced_tokens=produced_tokens,
    )


async def collect(engine, request):
    async with aclosing(engine.generate(request)) as outputs:
        return [output async for output in outputs]


async def broken(engine, request):
    """What an engine gave before it failed, and the failure."""
    outputs = []
    try:
        async with aclosing(engine.generate(request)) as stream:
            async for output in stream:
                outputs.append(output)
    except EngineError as error:
        return outputs, error
    pytest.fail("the engine did not fail")


def shown(outputs):
    return "".join(output.text or "" for output in outputs)


@pytest.fixture
def row():
    """That of ``bench``, where tests add their own."""


@pytest.fixture
async def fault():
    """A fault engine in the test's own loop: its counts and controls are plain attributes."""
    async with FaultEngine(rate=2000, slots=4, context=100).serving() as server:
        yield server


@pytest.fixture
async def first():
    """One of two that serve a model of the whole stack."""
    async with FaultEngine(rate=2000, slots=100, context=1000).serving() as server:
        yield server


@pytest.fixture
async def second():
    """The other."""
    async with FaultEngine(rate=2000, slots=100, context=1000).serving() as server:
        yield server


@pytest.fixture
async def fault_client(fault):
    engine = LlamaCppEngine(fault.url, {})
    yield engine
    await engine.aclose()


@pytest.fixture(scope="session")
def demo_tokenizer(demo_model):
    return demo_model.parent


@pytest.fixture(scope="session")
def worker_url(demo_model):
    """The real worker, started by its command on a free port; the URL is what it says of itself."""
    command = [sys.executable, "manage.py", "run_engine", "--model-path", str(demo_model), "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert "ready on http://" in line, line
    yield line.split("ready on ")[1].split(",")[0]
    process.terminate()
    assert process.wait(timeout=30) == 0


@pytest.fixture
async def worker(worker_url):
    engine = LlamaCppEngine(worker_url, {})
    yield engine
    await engine.aclose()


@contextmanager
def workers_of(demo_model, number):
    """Real ones that a test may kill, with their URLs."""
    command = [sys.executable, "manage.py", "run_engine", "--model-path", str(demo_model), "--port", "0"]
    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(number)]
    try:
        yield [(process, process.stdout.readline().split("ready on ")[1].split(",")[0]) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture
def workers(demo_model):
    """Two of them."""
    with workers_of(demo_model, 2) as started:
        yield started


@pytest.fixture
def worker_process(demo_model):
    """One of them."""
    with workers_of(demo_model, 1) as (started,):
        yield started


async def until(reached, timeout_s=60.0):
    """Wait for something that only polling shows."""
    async with asyncio.timeout(timeout_s):
        while not (value := await reached()):
            await asyncio.sleep(0.02)
        return value


def byte_level(words=(), special=(), added=()):
    """A byte-level BPE in which each of the words is one token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: nth for nth, letter in enumerate(alphabet)}
    merges = []
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                vocabulary[word[:end]] = len(vocabulary)
                merges.append((word[: end - 1], word[end - 1]))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in added])
    return tokenizer


def sentencepiece_like(pieces, special=("<s>", "</s>")):
    """A Unigram vocabulary that writes spaces as ▁ and puts one before the text, as many Llama models do."""
    scored = [("<unk>", 0.0), *((name, 0.0) for name in special), *((piece, -1.0) for piece in pieces)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
    return tokenizer


def save(tokenizer, folder, template=None, **config):
    """Lay the tokenizer out as model repositories do."""
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


#: The real vLLM needs an environment of gigabytes: its tests are there where somebody says that it is.
collect_ignore = [] if os.environ.get("VLLM_ENV") else ["test_vllm_server.py"]
