"""What `manage.py probe_engine` finds out, of the fault engine in every wire and of the real worker."""

import json
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from streaming.engine.base import EngineError
from streaming.engine.openai import context_in
from streaming.management.commands.probe_engine import probed
from streaming.models import Engine, Response, ResponseEvent
from streaming.store import threads
from tests.child import ROOT

PATHS = {"openai": "/v1", "anthropic": "", "llamacpp": "", "vllm": ""}


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here."""


async def added(kind, url, **fields):
    defaults = {"name": "e", "model": "m", "url": url + PATHS[kind], "kind": kind}
    return await threads.write(lambda: Engine.objects.create(**defaults | fields))


@pytest.fixture
async def openai(fault):
    fault.set_control({"singly": True})
    return await added("openai", fault.url)


def rows():
    return list(Response.objects.order_by("created_at").values_list("end_state", "end_reason", "usage_estimated"))


async def test_a_chat_endpoint_that_can_do_everything(fault, openai):
    found = await probed(openai)
    assert found.pop("first_token_ms") > 0
    assert found == {
        "continuous_usage": True,
        "streams": True,
        "usage": True,
        "reasoning": False,
        "prompt_agrees": None,
        "abort": True,
        "tools": None,
        "tokenizer": None,
        "context_tokens": 100,
        "slots": None,
    }
    assert await threads.run(rows) == [
        ("completed", "length", False),
        ("cancelled", "admin", False),
        ("completed", "length", False),
    ]


async def test_each_generation_has_a_row_with_its_purpose_its_engine_and_one_end(fault, openai):
    await probed(openai)
    responses = await threads.run(lambda: list(Response.objects.all()))
    assert {(r.purpose, r.engine_id, r.state, r.last_seq, r.user_id) for r in responses} == {
        ("probe", openai.pk, "ended", 1, None)
    }
    assert sum(r.generated_tokens for r in responses) >= 24 + 1 + 96
    assert await threads.run(ResponseEvent.objects.filter(kind="ended").count) == len(responses) == 3


@pytest.mark.parametrize(
    ("refused", "found"),
    [
        (["stream_options"], {"stream_options": False, "usage": False, "continuous_usage": False}),
        (["max_tokens"], {"max_tokens_field": "max_completion_tokens", "continuous_usage": True, "usage": True}),
        (["max_tokens", "stream_options"], {"stream_options": False, "max_tokens_field": "max_completion_tokens"}),
        (["tools"], {"tools": False, "usage": True}),
    ],
)
async def test_what_is_refused_is_not_sent_again(fault, openai, refused, found):
    fault.set_control({"singly": True, "refuse_fields": refused})
    capabilities = await probed(openai)
    assert {name: capabilities.get(name) for name in found} == found
    if "tools" not in refused:
        assert not fault.bodies[-1].keys() & set(refused), "the later generations speak as was found out"


async def test_an_endpoint_that_reports_no_usage_or_does_not_stream_is_seen(fault, openai):
    fault.set_control({"usage": "none", "burst": 1000})
    found = await probed(openai)
    assert (found["streams"], found["usage"]) == (False, True), "continuous usage is usage too"
    fault.set_control({"usage": "none", "refuse_fields": ["stream_options"]})
    assert (await probed(openai))["usage"] is False


async def test_an_abort_that_does_not_free_the_engine_is_seen(fault, openai, monkeypatch):
    monkeypatch.setattr("streaming.engine.probing.PROOF_TIMEOUT_S", 0.2)
    fault.set_control({"hold_slots": True})
    assert (await probed(openai))["abort"] is False


@pytest.mark.parametrize("kind", ["anthropic", "llamacpp", "vllm"])
async def test_the_other_wires(fault, kind, tmp_path):
    from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer
    from tests.engine.conftest import save

    fault.context = 1000
    fault.set_control({"singly": True})
    tokenizer = str(save(byte_tokenizer(), tmp_path / "m", CHATML))
    found = await probed(await added(kind, fault.url, tokenizer=tokenizer))
    assert (found["streams"], found["usage"], found["abort"]) == (True, True, True)
    assert found["context_tokens"] == (None if kind == "anthropic" else 1000)
    if kind == "vllm":
        last = await threads.run(lambda: Response.objects.order_by("-created_at").first())
        assert (last.end_state, last.usage_estimated) == ("cancelled", False), "an aborted vLLM counts exactly"


async def test_an_endpoint_that_does_not_work_is_an_error_and_a_row(fault, openai):
    fault.set_control({"status": 503})
    with pytest.raises(EngineError, match="503"):
        await probed(openai)
    assert await threads.run(rows) == [("errored", "upstream_error", True)]
    await threads.write(lambda: Engine.objects.update(url="http://127.0.0.1:1/v1"))
    with pytest.raises(EngineError, match="lost"):
        await probed(await threads.run(Engine.objects.get))


def test_a_row_promises_no_more_slots_than_the_engine_has(tmp_path):
    from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer
    from tests.engine.conftest import save

    command = [sys.executable, "-m", "tests.fault_engine", "--rate", "2000", "--slots", "3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            tokenizer = str(save(byte_tokenizer(), tmp_path / "m", CHATML))
            fields = {"kind": "llamacpp", "model": "m", "url": url, "tokenizer": tokenizer}
            for name, slots in (("more", 8), ("less", 2)):
                Engine.objects.create(name=name, slots=slots, **fields)
                call_command("probe_engine", name)
        finally:
            server.terminate()
    assert dict(Engine.objects.values_list("name", "slots")) == {"more": 3, "less": 2}


def test_the_command_prints_what_it_found_and_stores_it_in_the_row():
    command = [sys.executable, "-m", "tests.fault_engine", "--rate", "100", "--context", "99"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        Engine.objects.create(name="e", kind="openai", model="m", url=url, context_tokens=4096)
        from io import StringIO

        out = StringIO()
        call_command("probe_engine", "e", stdout=out)
    finally:
        server.terminate()
        server.wait()
    row = Engine.objects.get()
    assert row.capabilities["continuous_usage"] is True
    assert row.probed_at is not None
    assert row.context_tokens == 99, "more than the engine has would only be refused"
    lines = out.getvalue().splitlines()
    assert {"streams: yes", "tools: unknown", "context_tokens: 99"} <= set(lines)
    assert json.dumps(row.capabilities)
    with pytest.raises(CommandError, match="e: the connection to the engine was lost"):
        call_command("probe_engine", "e")
    assert Engine.objects.get().capabilities == row.capabilities, "what was known stays known"


def test_the_command_names_what_is_wrong():
    with pytest.raises(CommandError, match="there is no engine 'x'"):
        call_command("probe_engine", "x")
    Engine.objects.create(name="e", kind="vllm", model="m", url="http://127.0.0.1:1", tokenizer="/nowhere")
    with pytest.raises(CommandError, match=r"e: no tokenizer\.json at /nowhere"):
        call_command("probe_engine", "e")


@pytest.mark.parametrize(
    ("listing", "tokens"),
    [
        ({"data": [{"id": "m", "max_model_len": 7}, {"id": "n", "max_model_len": 9}]}, 7),
        ({"data": [{"id": "other", "context_length": 9}]}, 9),
        ({"data": [{"id": "a", "context_length": 9}, {"id": "b"}]}, None),
        ({"data": [{"id": "m", "context_window": "9"}, 3]}, None),
        ({"data": None}, None),
        ([], None),
    ],
)
def test_the_context_is_read_from_a_list_of_models(listing, tokens):
    assert context_in(listing, "m") == tokens


@pytest.mark.engine
async def test_of_the_real_worker_everything_is_found(worker_url, demo_tokenizer):
    found = await probed(await added("llamacpp", worker_url, tokenizer=str(demo_tokenizer)))
    names = ("streams", "usage", "abort", "tokenizer", "context_tokens")
    assert [found[name] for name in names] == [True, True, True, True, 2048]
    chat = await added("openai", worker_url, tokenizer=str(demo_tokenizer), name="chat")
    found = await probed(chat)
    names = ("streams", "usage", "continuous_usage", "abort", "prompt_agrees")
    assert [found[name] for name in names] == [True, True, False, True, True]
