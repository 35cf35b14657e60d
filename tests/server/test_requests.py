"""Owns the promise that a request is refused before it costs memory or time."""

import contextlib
import time

import pytest

from tests.server.conftest import UPGRADE, WAIT_S, json_of, read_all, read_until, status_of

MEBIBYTE = 2**20


def with_length(size_bytes: int, extra: bytes = b"") -> bytes:
    return b"POST /api/echo HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n%b\r\n" % (size_bytes, extra)


CHUNKED = b"POST /api/echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunks(size_bytes: int) -> bytes:
    return (b"10000\r\n" + b"x" * 65536 + b"\r\n") * (size_bytes // 65536) + b"0\r\n\r\n"


def error_of(answer: bytes):
    assert status_of(answer) == 413
    assert b"Connection: close" in answer
    error = json_of(answer)["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "body_too_large", None)
    return error["message"]


def test_a_body_with_a_length_above_the_cap_is_refused_and_no_application_sees_it(launch):
    server = launch()
    sock = server.connect()
    sock.sendall(with_length(3 * MEBIBYTE) + b"x" * 3 * MEBIBYTE)
    assert error_of(read_all(sock)) == "The request body has 3145728 bytes; the limit is 2097152 bytes."
    assert server.printed("app: called") == 0


def test_a_chunked_body_is_refused_as_soon_as_it_passes_the_cap(launch):
    server = launch()
    sock = server.connect()
    sock.sendall(CHUNKED + chunks(3 * MEBIBYTE))
    message = error_of(read_all(sock))
    assert "limit is 2097152" in message
    assert int(message.split()[6]) < 3 * MEBIBYTE
    assert server.printed("app: called") == 0


def test_a_client_that_asks_first_is_refused_before_it_sends(launch):
    sock = launch().connect()
    sock.sendall(with_length(300 * MEBIBYTE, b"Expect: 100-continue\r\n"))
    error_of(read_all(sock))


@pytest.mark.parametrize("head", [with_length(300 * MEBIBYTE), CHUNKED], ids=["length", "chunked"])
def test_a_body_of_300_mb_leaves_memory_flat(launch, head):
    server = launch()
    read_until(server.get("/hello"), b"hello")
    before_bytes = server.rss_bytes
    sock = server.connect()
    sock.sendall(head)
    part = chunks(MEBIBYTE)[:-5]
    try:
        for _ in range(300):
            sock.sendall(part)
    except ConnectionError:
        pass  # enough was read to let the answer through
    error_of(read_all(sock))
    assert server.rss_bytes - before_bytes <= 5 * MEBIBYTE


@pytest.mark.parametrize("send", [with_length(MEBIBYTE) + b"x" * MEBIBYTE, CHUNKED + chunks(MEBIBYTE)])
def test_a_body_below_the_cap_arrives_whole(launch, send):
    sock = launch().connect()
    sock.sendall(send)
    assert b"1048576 bytes" in read_until(sock, b"bytes")


HANDSHAKES = {
    "a key that is none": UPGRADE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"x"),
    "no key": UPGRADE.replace(b"Sec-WebSocket-Key", b"X-Key"),
    "two keys": UPGRADE.replace(b"Host", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nHost"),
    "no host": UPGRADE.replace(b"Host: t\r\n", b""),
    "a host that is none": UPGRADE.replace(b"Host: t", b"Host: t:x"),
    "a version that is none": UPGRADE.replace(b"Version: 13", b"Version: x"),
    "a version of old": UPGRADE.replace(b"Version: 13", b"Version: 1"),
    "no version": UPGRADE.replace(b"Sec-WebSocket-Version: 13\r\n", b""),
    "an origin that is none": UPGRADE.replace(b"Host", b"Origin: \xff\r\nHost"),
    "protocols that are none": UPGRADE.replace(b"Host", b"Sec-WebSocket-Protocol: a, a, ,\r\nHost"),
    "extensions that are none": UPGRADE.replace(b"Host", b"Sec-WebSocket-Extensions: ;;=,\r\nHost"),
    "by POST": UPGRADE.replace(b"GET", b"POST"),
    "by HTTP/1.0": UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a path of other bytes": UPGRADE.replace(b"/socket", b"/socket%ff%00?%ff"),
}
HEADS = {
    "a length of 5,000 digits": b"POST /api/echo HTTP/1.1\r\nHost: t\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"
}


def test_a_request_that_nobody_can_read_is_answered_and_no_fault_of_ours(server):
    for name, request in {**HANDSHAKES, **HEADS}.items():
        sock = server.connect()
        sock.sendall(request)
        answer = read_until(sock, b"\r\n\r\n")
        assert status_of(answer) in (101, 400, 403, 404, 405, 426), (name, answer)
        sock.close()
    read_until(server.get("/hello"), b"hello")
    assert server.printed("Traceback|CRITICAL|Unhandled") == 0, server.lines


def test_a_body_of_exactly_the_cap_is_accepted(launch):
    sock = launch(max_body_bytes=10).connect()
    sock.sendall(with_length(10) + b"0123456789")
    assert b"10 bytes" in read_until(sock, b"bytes")


def test_only_the_path_of_uploads_takes_longer_bodies_and_those_have_a_cap_too(launch):
    server = launch(max_body_bytes=10, upload_path="/api/echo", max_upload_bytes=MEBIBYTE)
    for send in (with_length(MEBIBYTE) + b"x" * MEBIBYTE, CHUNKED + chunks(MEBIBYTE)):
        sock = server.connect()
        sock.sendall(send)
        assert b"1048576 bytes" in read_until(sock, b"bytes")
    for send in (with_length(MEBIBYTE + 1), CHUNKED + chunks(2 * MEBIBYTE)):
        sock = server.connect()
        sock.sendall(send)
        assert "limit is 1048576" in error_of(read_all(sock))
    sock = server.connect()
    sock.sendall(with_length(11).replace(b"/api/echo", b"/api/echoes") + b"x" * 11)
    assert "limit is 10" in error_of(read_all(sock))


def test_long_bodies_wait_their_turn_on_disk_and_keep_nobody_else_waiting(launch):
    server = launch(max_body_bytes=10, upload_path="/api/stream", max_upload_bytes=100, uploads_at_once=1)

    def post(size_bytes):
        sock = server.connect()
        sock.sendall(with_length(size_bytes).replace(b"/api/echo", b"/api/stream") + b"x" * size_bytes)
        return sock

    def served_meanwhile():
        for _ in range(20):
            assert read_until(server.get("/hello"), b"hello")

    first = post(11)
    assert read_until(first, b"first")
    second, gone, fourth = (post(11) for _ in range(3))
    served_meanwhile()
    gone.close()
    served_meanwhile()
    assert server.printed("called stream") == 1
    assert read_until(post(10), b"first")
    first.close()
    assert read_until(second, b"first")
    second.close()
    assert read_until(fourth, b"first")
    assert server.printed("called stream") == 4


def test_headers_that_trickle_are_cut_off_while_others_are_served(launch):
    server = launch(headers_timeout_s=1.5)
    slow = [server.connect() for _ in range(500)]
    for sock in slow:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: t\r\n")
    assert read_until(server.get("/hello"), b"hello")
    for sock in slow:
        sock.settimeout(0.01)
    deadline_s = time.monotonic() + WAIT_S
    while not is_closed(slow[-1]):
        assert time.monotonic() < deadline_s
        with contextlib.suppress(ConnectionError):
            slow[-1].sendall(b"X: y\r\n")  # every byte would prolong a timer that counts idleness
    for sock in slow[:-1]:
        sock.settimeout(WAIT_S)
        assert read_all(sock) == b""
    assert server.printed("app: called") == 1


def is_closed(sock) -> bool:
    try:
        return sock.recv(100) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_body_that_trickles_is_answered_408_and_closed(launch):
    server = launch(body_timeout_s=0.5, linger_s=0.5)
    sock = server.connect()
    sock.sendall(with_length(100) + b"x")
    answer = read_all(sock)
    assert status_of(answer) == 408
    assert json_of(answer)["error"]["code"] == "body_timeout"
    assert server.printed("app: called") == 0


def test_a_refused_client_that_neither_reads_nor_closes_is_dropped(launch):
    server = launch(linger_s=0.5)
    sock = server.connect()
    sock.sendall(with_length(300 * MEBIBYTE))
    read_until(sock, b"}}")
    with pytest.raises(ConnectionError):
        send_for_ever(sock)


def send_for_ever(sock):
    while True:
        sock.sendall(b"x" * 65536)


def test_an_idle_connection_is_closed_after_the_keep_alive_time(launch):
    server = launch(keep_alive_s=0.5)
    sock = server.get("/hello")
    read_until(sock, b"hello")
    assert read_all(sock) == b""


def test_a_stream_outlives_every_timer_for_requests(launch):
    server = launch(headers_timeout_s=1, body_timeout_s=1, keep_alive_s=1, linger_s=1)
    sock = server.get("/stream")
    read_until(sock, b"first")
    sock.settimeout(2.5)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    assert server.printed("disconnected") == 0
