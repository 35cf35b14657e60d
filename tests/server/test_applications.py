"""Owns the promise that no application error hangs a client or stops the housekeeping."""

import pytest

from tests.server.conftest import UPGRADE, json_of, read_all, read_until, reset, status_of


@pytest.mark.parametrize("name", ["raise_after", "return_early"])
def test_an_application_that_breaks_off_leaves_a_broken_body(server, name):
    answer = read_all(server.get(f"/{name}"))
    assert not answer.endswith(b"0\r\n\r\n")


def test_after_an_exception_in_a_stream_a_stubborn_application_is_still_killed(launch):
    server = launch(close_application_s=0.3)
    read_all(server.get("/raise_after"))
    for count in (1, 2):
        stubborn = server.get("/stubborn")
        read_until(stubborn, b"first")
        stubborn.close()
        server.wait_for("app: killed", count)


@pytest.mark.parametrize("name", ["raise_before", "raise_unsent"])
@pytest.mark.parametrize("root", ["/v1", "/api"])
def test_an_exception_before_the_first_byte_is_a_500_in_json(server, root, name):
    answer = read_until(server.get(f"{root}/{name}"), b"}}")
    assert status_of(answer) == 500
    assert json_of(answer)["error"]["type"] == "server_error"
    assert b"before the start" not in answer


def test_an_exception_before_the_first_byte_is_a_500_on_pages(server):
    assert status_of(read_until(server.get("/raise_before"), b"</html>")) == 500


def test_the_connection_is_still_good_after_a_500(server):
    sock = server.get("/api/raise_before")
    read_until(sock, b"}}")
    sock.sendall(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n")
    assert read_until(sock, b"hello").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("leave", [reset, lambda sock: sock.close()], ids=["reset", "fin"])
def test_a_disconnect_reaches_the_application_at_once(server, leave):
    before = server.printed("app: disconnected")
    sock = server.get("/stream")
    read_until(sock, b"first")
    leave(sock)
    server.wait_for("app: disconnected", before + 1)


def test_pipelined_requests_are_answered_in_order(server):
    sock = server.connect()
    sock.sendall(b"".join(b"GET /later?%b HTTP/1.1\r\nHost: t\r\n\r\n" % s for s in (b"0.3", b"0.1", b"0.0")))
    answer = b""
    while answer.count(b"\r\n0\r\n\r\n") < 3:
        answer += sock.recv(65536)
    assert [answer.index(b"\r\n" + s + b"\r\n") for s in (b"0.3", b"0.1", b"0.0")] == sorted(
        answer.index(b"\r\n" + s + b"\r\n") for s in (b"0.3", b"0.1", b"0.0")
    )


def test_pipelined_errors_do_not_eat_the_answer_before_them(server):
    sock = server.connect()
    sock.sendall(b"GET /hello HTTP/1.1\r\nHost: t\r\n\r\n" + b"GET /hello HTTP/1.1\r\nHost: t\r\nX: \x0b\r\n\r\n")
    answer = read_until(sock, b"</html>")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"hello" in answer
    assert b"HTTP/1.1 400" in answer


def test_an_http_1_0_client_gets_its_body_until_the_end_of_the_connection(server):
    sock = server.connect()
    sock.sendall(b"GET /flood?65536 HTTP/1.0\r\n\r\n")
    head, body = read_all(sock).split(b"\r\n\r\n", 1)
    assert b"chunked" not in head
    assert len(body) == 65536


def test_a_websocket_can_be_refused(server):
    sock = server.connect()
    sock.sendall(UPGRADE)
    assert status_of(read_all(sock)) == 403
    assert read_until(server.get("/hello"), b"hello")


def test_a_head_request_has_no_body(server):
    sock = server.connect()
    sock.sendall(b"HEAD /flood?65536 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
    head, body = read_all(sock).split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b""
