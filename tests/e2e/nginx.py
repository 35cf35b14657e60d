"""Owns a real nginx before web processes, on ports of its own: as it comes, or deploy/nginx.conf. Knows no test."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from chatsite.free_ports import free_port, free_ports
from deploy.setup import nginx
from deploy.setup.console import SetupError
from deploy.setup.nginx import Certificate, Front
from tests.child import Child
from tests.e2e.reading import eventually

#: What nginx does when it is told nothing but where to pass requests.
AS_IT_COMES = """
pid {folder}/nginx.pid; {user}
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://127.0.0.1:{web}; proxy_read_timeout {read_timeout_s}s; {more} }}
    }}
}}
"""


class Proxy:
    """Passes what comes to ``url`` on to web processes."""

    redirect_port = 0

    def __init__(self, folder: Path, port: int, process: Child, scheme: str = "http"):
        self.folder = folder
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.process = process
        eventually(self._listens)

    def _listens(self) -> bool:
        assert self.process.popen.poll() is None, self.process.lines
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        """End it."""
        self.process.end()


def program() -> str:
    try:
        return nginx.program()
    except SetupError as error:
        pytest.skip(str(error))


def _started(folder: Path, port: int, scheme: str = "http") -> Proxy:
    return Proxy(folder, port, Child(nginx.command(program(), folder), os.environ, folder / "nginx.out"), scheme)


def as_it_comes(folder: Path, web_port: int, read_timeout_s: int, more: str = "") -> Proxy:
    """An nginx without any configuration of ours, but for its patience; ``more`` is what else somebody told it."""
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    told = {"folder": folder, "user": user, "port": port, "web": web_port, "read_timeout_s": read_timeout_s}
    text = AS_IT_COMES.format(**told, more=more)
    (folder / "nginx.conf").write_text(text)
    return _started(folder, port)


def ours(folder: Path, web_ports: Sequence[int], static: Path, certificate: Certificate | None = None) -> Proxy:
    """deploy/nginx.conf; with a certificate it speaks HTTPS."""
    port, redirect_port = free_ports(2)
    nginx.lay_out(folder, Front(port, web_ports, static, certificate, redirect_port))
    started = _started(folder, port, "https" if certificate else "http")
    started.redirect_port = redirect_port
    return started
