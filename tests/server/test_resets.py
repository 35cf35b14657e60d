"""Owns the promise that a reset is noticed whenever it comes: also together with the bytes of a request."""

import signal

import pytest

from tests.server.conftest import read_until, reset

CLIENTS = 20


@pytest.mark.parametrize(("name", "noticed"), [("stream", "disconnected"), ("stubborn", "killed")])
def test_a_reset_that_comes_with_the_request_is_a_disconnect(launch, name, noticed):
    server = launch(close_application_s=0.5)
    socks = [server.get("/hello") for _ in range(CLIENTS)]
    for sock in socks:
        read_until(sock, b"hello")
    # Kept alive; bytes and reset are both there before the server looks again.
    server.signal(signal.SIGSTOP)
    for sock in socks:
        sock.sendall(f"GET /{name} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        reset(sock)
    server.signal(signal.SIGCONT)
    server.wait_for(f"app: called {name}", count=CLIENTS)
    server.wait_for(f"app: {noticed}", count=CLIENTS)
    assert server.printed("ERROR") == 0


def test_a_reset_amid_a_stream_is_a_disconnect(launch):
    server = launch()
    socks = [server.get("/stream") for _ in range(CLIENTS)]
    for sock in socks:
        read_until(sock, b"first")
    for sock in socks:
        reset(sock)
    server.wait_for("app: disconnected", count=CLIENTS)
