"""Owns the promise of what the process runs on: loop, clock, limits, socket options, versions, the lock."""

import re
import resource
import signal
import socket
import sys

import psutil
import pytest

from chatsite.process_lock import LockHeldError, ProcessLock
from chatsite.server.limits import Limits
from chatsite.server.listener import ListenError, adopt, bind, listen, url_of
from chatsite.server.versions import OldVersionError, check_versions
from tests.child import ROOT
from tests.server.conftest import ServerProcess, read_until

HOLD_LOCK = """
import signal, sys
from pathlib import Path
from chatsite.process_lock import ProcessLock
ProcessLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
signal.pause()
"""


def test_the_server_runs_on_uvloop_and_a_monotonic_clock(launch):
    server = launch()
    read_until(server.get("/engine"), b"hello")
    server.wait_for("app: loop uvloop monotonic True")


def test_the_server_may_open_as_many_files_as_the_system_grants(launch):
    server = launch()
    soft, hard = psutil.Process(server.popen.pid).rlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


def test_accepted_connections_notice_a_vanished_peer_and_keep_little_in_the_kernel():
    with bind("127.0.0.1", 0) as door:
        listen(door, Limits(stuck_reader_s=60))
        with socket.create_connection(door.getsockname()):
            accepted, _ = door.accept()
            with accepted:
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 90_000
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 65536


def test_the_url_of_an_ipv6_address_has_brackets():
    with bind("::1", 0) as door:
        assert re.fullmatch(r"http://\[::1\]:\d+", url_of(door))


def test_a_descriptor_that_is_no_tcp_socket_is_refused():
    with pytest.raises(ListenError, match="not a TCP socket"):
        adopt(socket.socket(socket.AF_UNIX).detach())
    with pytest.raises(ListenError, match="is not a socket"):
        adopt(1_000_000)


@pytest.mark.parametrize(
    ("name", "version"), [("asgiref", "3.12.1"), ("daphne", "4.2.2"), ("Twisted", "25.5.0"), ("Django", "5.2.15")]
)
def test_a_stack_that_is_known_to_freeze_is_refused_by_name(name, version):
    good = {"asgiref": "3.13.0", "daphne": "4.2.3", "Twisted": "26.4.0rc1", "Django": "6.0"}
    check_versions(good.__getitem__)
    with pytest.raises(OldVersionError, match=f"{name} {version} is too old"):
        check_versions({**good, name: version}.__getitem__)


def test_a_second_process_on_one_lock_is_refused_and_told_who_holds_it(tmp_path):
    path = tmp_path / "web.lock"
    holder = ServerProcess([sys.executable, "-c", HOLD_LOCK, str(path)])
    try:
        holder.wait_for("held")
        with pytest.raises(LockHeldError, match=f"held by process {holder.popen.pid}"):
            ProcessLock(path).acquire()
        holder.signal(signal.SIGKILL)
        holder.exit_code()
        lock = ProcessLock(path)
        lock.acquire()
        lock.release()
    finally:
        holder.stop()


def test_a_released_lock_can_be_taken_again(tmp_path):
    first, second = ProcessLock(tmp_path / "lock"), ProcessLock(tmp_path / "lock")
    first.acquire()
    first.release()
    second.acquire()
    with pytest.raises(LockHeldError):
        first.acquire()


def test_plain_daphne_still_serves_an_application(tmp_path):
    (tmp_path / "plain.py").write_text(
        "async def application(scope, receive, send):\n"
        "    await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "    await send({'type': 'http.response.body', 'body': b'plain'})\n"
    )
    command = [sys.executable, "-m", "daphne", "-e", "tcp:0:interface=127.0.0.1", "plain:application"]
    server = ServerProcess(command, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    try:
        server.port = int(server.wait_for(r"Listening on TCP address 127\.0\.0\.1:(\d+)").group(1))
        assert b"plain" in read_until(server.get("/"), b"plain")
    finally:
        server.stop()


def test_an_inherited_socket_is_served():
    with bind("127.0.0.1", 0) as door:
        code = (
            "import sys; from chatsite.server.launch import serve; from chatsite.server.listener import adopt;"
            "from chatsite.server.limits import Limits; from tests.server.serve_app import App;"
            "import logging; logging.basicConfig(level=logging.INFO);"
            "serve(App('plain'), adopt(int(sys.argv[1])), Limits())"
        )
        command = [sys.executable, "-c", code, str(door.fileno())]
        server = ServerProcess(command, pass_fds=[door.fileno()])
        try:
            server.wait_listening()
            assert server.port == door.getsockname()[1]
            assert read_until(server.get("/hello"), b"hello")
        finally:
            server.stop()
