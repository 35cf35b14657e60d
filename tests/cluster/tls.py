"""Owns TLS in front of a plain server of a test, as a managed Valkey has it. Looks into nothing."""

import contextlib
import socket
import ssl
import threading

from deploy.setup.nginx import Certificate


class TlsFront:
    """Ends TLS on a port of its own and passes the bytes on to another."""

    def __init__(self, certificate: Certificate, port: int):
        self._to = port
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate.chain, certificate.key)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._to)) as server,
            self._context.wrap_socket(client, server_side=True) as inside,
        ):
            back = threading.Thread(target=_copy, args=(server, inside), daemon=True)
            back.start()
            _copy(inside, server)
            back.join()

    def close(self) -> None:
        self._listening.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
