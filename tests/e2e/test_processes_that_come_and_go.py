"""deploy/nginx.conf before processes that are replaced one after the other, with nothing but streams. 2 s."""

import socketserver
import threading
from contextlib import ExitStack

import httpx
import pytest

from chatsite.free_ports import free_ports
from tests.e2e import nginx as fronts
from tests.e2e.reading import eventually


class Streaming(socketserver.StreamRequestHandler):
    """Begins an answer and does not end it while its process is there."""

    def handle(self):
        while self.rfile.readline().strip():
            pass
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nX-Web: %d\r\nContent-Type: text/event-stream\r\n\r\n: hi\n\n" % self.server.port
        )
        self.server.left.wait()


class Process(socketserver.ThreadingTCPServer):
    """One web process on one port, through ends and starts."""

    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, port):
        super().__init__(("127.0.0.1", port), Streaming)
        self.port = port
        self.left = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def end(self):
        """No new connections, and those that are there are hung up on."""
        self.shutdown()
        self.server_close()
        self.left.set()


@pytest.fixture
def asked(tmp_path):
    """Opens streams through nginx, which stay open; says whose they are."""
    with ExitStack() as opened:
        client = opened.enter_context(httpx.Client(timeout=10))

        def asked(front):
            answer = opened.enter_context(client.stream("GET", f"{front.url}/v1/responses/r/stream"))
            assert answer.status_code == 200
            return int(answer.headers["X-Web"])

        yield asked


def test_a_process_that_is_back_is_asked_although_no_stream_of_it_has_ended_yet(tmp_path, asked):
    """nginx forgets a failure only when a request to who failed is over: for streams that is too late."""
    one, two = (Process(port) for port in free_ports(2))
    front = fronts.ours(tmp_path, [one.port, two.port], tmp_path / "static")
    try:
        one.end()
        assert [asked(front), asked(front)] == [two.port, two.port]
        one = Process(one.port)
        eventually(lambda: asked(front) == one.port, pause_s=0.2)
        two.end()
        assert [asked(front), asked(front)] == [one.port, one.port]
    finally:
        front.close()
        for process in (one, two):
            process.end()
