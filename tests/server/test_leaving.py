"""Owns the promise that the process starts cleanly or not at all, and ends in time whatever hangs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import ROOT
from tests.server import serve_app
from tests.server.conftest import UPGRADE, read_all, read_until

#: Longer than any test waits: who leaves in time has not waited for it.
FOR_EVER_S = 300


def test_startup_runs_before_the_door_opens(launch):
    server = launch()
    assert server.lines.index("app: startup") < next(i for i, x in enumerate(server.lines) if "listening" in x)


def test_a_failed_startup_is_one_line_and_an_exit_code(launch):
    server = launch(mode="startup_fails", listening=False)
    assert server.exit_code() == 1
    server.wait_for("startup failed: RuntimeError: no database")
    assert server.printed("Traceback|listening") == 0


def test_a_taken_port_is_one_line_and_an_exit_code(launch):
    first = launch()
    second = launch(port=first.port, listening=False)
    assert second.exit_code() == 1
    second.wait_for(f"cannot listen on 127.0.0.1:{first.port}: Address already in use")
    assert second.printed("Traceback") == 0


def test_a_signal_during_startup_is_obeyed(launch):
    server = launch(mode="startup_hangs", listening=False)
    server.wait_for("app: startup")
    server.signal(signal.SIGTERM)
    assert server.exit_code() == 0


def test_sigterm_closes_the_door_calls_the_application_and_ends(launch):
    server = launch(drain_s=3)
    idle = server.get("/hello")
    read_until(idle, b"hello")
    server.signal(signal.SIGTERM)
    server.wait_for("app: shutdown 3")
    assert read_all(idle) == b""
    assert server.exit_code() == 0
    with pytest.raises(ConnectionRefusedError):
        server.connect()


def test_a_response_that_ends_within_the_drain_ends_whole(launch):
    server = launch(drain_s=10)
    sock = server.get("/when_leaving")
    server.wait_for("called when_leaving")
    server.signal(signal.SIGTERM)
    answer = read_all(sock)
    assert b"Connection: close" in answer
    assert answer.endswith(b"7\r\nleaving\r\n0\r\n\r\n")
    assert server.exit_code() == 0


def test_a_refused_websocket_does_not_hold_the_end(launch):
    server = launch(drain_s=FOR_EVER_S)
    sock = server.connect()
    sock.sendall(UPGRADE)
    assert b" 403 " in read_all(sock)
    server.signal(signal.SIGTERM)
    assert server.exit_code() == 0


def test_half_sent_requests_neither_hold_nor_break_the_end(launch):
    server = launch(drain_s=FOR_EVER_S)
    half_line, half_head, half_body = server.connect(), server.connect(), server.connect()
    half_line.sendall(b"GET /he")
    half_head.sendall(b"GET /hello HTTP/1.1\r\nHo")
    half_body.sendall(b"POST /hello HTTP/1.1\r\nContent-Length: 9\r\n\r\nx")
    read_until(server.get("/hello"), b"hello")
    server.signal(signal.SIGTERM)
    assert server.exit_code() == 0
    assert server.printed("Traceback|KeyError") == 0


def test_open_streams_are_broken_off_and_named_when_the_drain_is_over(launch):
    server = launch(drain_s=0.5)
    streams = [server.get("/stream") for _ in range(50)]
    for sock in streams:
        read_until(sock, b"first")
    server.signal(signal.SIGTERM)
    assert server.exit_code() == 0
    assert server.printed("cut off: .* GET /stream response=resp_test") == 50
    for sock in streams:
        assert not read_all(sock).endswith(b"0\r\n\r\n")


def test_who_still_waits_for_a_first_byte_when_the_drain_is_over_is_told_to_come_again(launch):
    server = launch(drain_s=0.3)
    waiting, page = server.get("/api/later?60"), server.get("/later?60")
    server.wait_for("called later", count=2)
    server.signal(signal.SIGTERM)
    answer = read_all(waiting)
    assert b" 503 " in answer
    assert b"Retry-After: 1" in answer
    assert b'"unavailable"' in answer
    assert b" 503 " in read_all(page)
    assert server.exit_code() == 0


def test_a_hanging_application_does_not_keep_the_process(launch):
    server = launch(mode="shutdown_hangs", drain_s=0.5)
    server.signal(signal.SIGTERM)
    assert server.exit_code() == 0
    server.wait_for("a step of leaving took longer")


def test_a_blocked_event_loop_does_not_keep_the_process(launch):
    server = launch(drain_s=0.1)
    blocked = server.get("/block_loop")
    server.wait_for("app: blocking")
    server.signal(signal.SIGTERM)
    assert server.exit_code() == 1
    server.wait_for("ended by force with live connections: 1")
    server.wait_for("GET /block_loop")
    server.wait_for("in block_loop")
    blocked.close()


@pytest.mark.parametrize("reader", ["is gone", "reads no more"])
def test_whoever_should_read_what_it_says_does_not_keep_the_process(reader):
    said, told = os.pipe()
    options = json.dumps({"mode": "plain", "port": 0, "limits": {"drain_s": 0.2}})
    command = [sys.executable, str(Path(serve_app.__file__)), options]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=told, stderr=told)
    try:
        read = b""
        while b"listening on" not in read:
            read += os.read(said, 65536)
        if reader == "is gone":
            os.close(said)
        else:
            os.set_blocking(told, False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(told, b"x")
            os.set_blocking(told, True)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(told)


def test_a_second_interrupt_ends_at_once(launch):
    server = launch(drain_s=FOR_EVER_S)
    stream = server.get("/stream")
    read_until(stream, b"first")
    server.signal(signal.SIGINT)
    server.wait_for("app: shutdown")
    server.signal(signal.SIGINT)
    assert server.exit_code() == 130
    stream.close()


def test_sigusr1_names_the_live_connections_even_when_the_loop_is_blocked(launch):
    server = launch()
    stream = server.get("/api/stream?key=secret")
    read_until(stream, b"first")
    server.signal(signal.SIGUSR1)
    server.wait_for("live connections: 1")
    server.wait_for("GET /api/stream response=resp_test age_s=")
    blocked = server.get("/block_loop/secret/block_loop")
    server.wait_for("app: blocking")
    server.signal(signal.SIGUSR1)
    server.wait_for("live connections: 2")
    server.wait_for("GET /block_loop response=-")
    assert server.printed("secret") == 0
    stream.close()
    blocked.close()
