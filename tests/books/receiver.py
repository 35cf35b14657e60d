"""Owns a real receiver of webhooks that takes, refuses, hangs or redirects as a test says. Standard library only."""

import base64
import hashlib
import hmac
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()


@dataclass
class Message:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> dict:
        return json.loads(self.body)["data"]

    @property
    def is_signed(self) -> bool:
        """Whether the signature is that of SECRET, computed here as the specification says."""
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        return (
            self.headers["webhook-signature"]
            == "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        )


class Receiver:
    """``answers`` are the statuses of the next requests (then 204); "hang" keeps one waiting until ``release``."""

    def __init__(self):
        self.messages: list[Message] = []
        self.answers: list[int | str] = []
        self.came = threading.Event()
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.messages.append(Message(self.path, headers, body))
                answer = receiver.answers.pop(0) if receiver.answers else 204
                receiver.came.set()
                if answer == "hang":
                    receiver.released.wait(60)
                    return
                self.send_response(answer)
                if answer == 307:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                """Nothing."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
