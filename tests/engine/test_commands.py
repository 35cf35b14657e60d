"""The two commands an operator meets: run_engine and add_engine, and their one-line complaints."""

import io
import signal
import socket
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from streaming.management.commands.run_engine import check_model, default_threads, is_loopback
from streaming.models import Engine
from tests.engine.conftest import ROOT, byte_level, save


def add(**options):
    out = io.StringIO()
    call_command("add_engine", stdout=out, **options)
    return out.getvalue().strip()


@pytest.fixture
def tokenizer(tmp_path):
    return str(save(byte_level(), tmp_path / "m"))


def test_add_engine_prints_id_and_name_only_and_changes_the_row_of_that_name(db, tokenizer):
    options = {"kind": "llamacpp", "url": "http://127.0.0.1:8001", "model": "m", "tokenizer": tokenizer}
    first = add(**options, context=512, slots=2, options='{"a": 1}')
    row = Engine.objects.get()
    assert first == f"{row.pk} m@http://127.0.0.1:8001"
    assert (row.context_tokens, row.slots, row.options) == (512, 2, {"a": 1})
    assert add(**options, slots=3) == first
    row = Engine.objects.get()
    assert (row.context_tokens, row.slots, row.options) == (512, 3, {"a": 1})
    assert add(**options, name="other") == f"{Engine.objects.get(name='other').pk} other"
    assert add(kind="scripted", model="m").endswith(" m@scripted")


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


def test_loopback_is_what_stays_on_this_machine(tmp_path):
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "example.org", ""]))
    assert default_threads() >= 1
    with pytest.raises(CommandError, match="Is a directory"):
        check_model(tmp_path)


@pytest.mark.engine
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_engine_says_when_it_is_ready_and_stops_at_once_amid_an_answer(demo_model, number):
    command = [sys.executable, "manage.py", "run_engine", "--model-path", str(demo_model), "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("engine: ready on http://127.0.0.1:")
    assert "4 slots of 2048 tokens" in line
    port = int(line.split(",")[0].rpartition(":")[2])
    body = b'{"prompt":[504],"n_predict":1500,"stream":true,"ignore_eos":true}'
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"POST /completion HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert b"200" in client.recv(100)
        process.send_signal(number)
        assert process.wait(timeout=5) == 0
    out, err = process.communicate()
    assert (out, err) == ("", ""), "prompts and noise stay out of the log"
