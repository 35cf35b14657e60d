"""Owns the promise that memory per connection is bounded and that a slow reader is not a stuck one."""

import time

from tests.server.conftest import read_all, read_until

MEBIBYTE = 2**20


def test_a_reader_that_stops_costs_no_memory_and_is_cut_off(launch):
    server = launch(stuck_reader_s=1.5)
    read_until(server.get("/hello"), b"hello")
    before_bytes = server.rss_bytes
    sock = server.get(f"/flood?{200 * MEBIBYTE}")
    assert sock.recv(1000)
    server.wait_for("reader stuck for .* cut off: 127.0.0.1:\\d+ GET /flood")
    grown_bytes = server.rss_bytes - before_bytes
    server.wait_for("app: disconnected")
    assert grown_bytes <= 5 * MEBIBYTE
    assert server.printed("flood complete") == 0
    assert b"0\r\n\r\n" not in read_all(sock)[-5:]


def test_a_slow_reader_gets_every_byte_although_it_takes_longer_than_a_stuck_one_may(launch):
    server = launch(stuck_reader_s=3.5)
    sock = server.get(f"/flood?{4 * MEBIBYTE}", receive_buffer_bytes=16 * 1024)
    began_s, received_bytes = time.monotonic(), 0
    # A reader's own pace is the subject: longer at this speed, then as fast as it can. A busy machine may hold it up.
    while time.monotonic() - began_s < 4:
        received_bytes += len(sock.recv(8192))
        time.sleep(0.05)
    rest = read_until(sock, b"\r\n0\r\n\r\n")
    assert received_bytes + len(rest) > 4 * MEBIBYTE
    assert server.printed("reader stuck") == 0
    assert server.wait_for("flood complete")


def test_a_stuck_reader_does_not_slow_another(launch):
    server = launch()
    stuck = server.get(f"/flood?{200 * MEBIBYTE}")
    assert stuck.recv(1000)
    whole = read_until(server.get(f"/flood?{20 * MEBIBYTE}"), b"\r\n0\r\n\r\n")
    assert len(whole) > 20 * MEBIBYTE


def test_an_application_that_only_sends_leaves_room_for_others(launch):
    server = launch()
    endless = server.get("/sender")
    assert endless.recv(1000)
    assert read_until(server.get("/hello"), b"hello")
    endless.close()


def test_an_application_that_only_sends_to_nobody_blocks_nobody_and_is_killed(launch):
    server = launch(close_application_s=0.5)
    endless = server.get("/sender")
    assert endless.recv(1000)
    endless.close()
    assert read_until(server.get("/hello"), b"hello")
    server.wait_for("app: killed")


def test_the_last_response_of_a_closing_connection_does_not_wait_for_a_stuck_reader_for_ever(launch):
    server = launch(stuck_reader_s=0.5)
    sock = server.connect(receive_buffer_bytes=4096)
    sock.sendall(b"GET /flood?%d HTTP/1.0\r\n\r\n" % (4 * MEBIBYTE))
    assert sock.recv(100)
    server.wait_for("app: disconnected")
    assert len(read_all(sock)) < 4 * MEBIBYTE
