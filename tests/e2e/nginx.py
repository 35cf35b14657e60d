"""Owns a real nginx before a site, on a port of its own. Knows no test."""

import shutil
import socket
from pathlib import Path

import pytest

from tests.child import ROOT, Child
from tests.e2e.reading import eventually
from tests.e2e.site import Site

#: What nginx does when it is told nothing but where to pass requests.
AS_IT_COMES = "server { listen 80; location / { proxy_pass http://127.0.0.1:8000; proxy_read_timeout 60s; } }"
OURS = (ROOT / "deploy" / "nginx.conf").read_text()
MAIN = """
daemon off; master_process off; pid {folder}/nginx.pid;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


class Nginx:
    """Passes what comes to ``url`` on to the site; ``read_timeout_s`` is put in for the configuration's own."""

    def __init__(self, folder: Path, site: Site, configuration: str, read_timeout_s: int):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if program is None:
            pytest.skip("there is no nginx on this machine (Debian: nginx-light)")
        self.port = free_port()
        words = configuration.split("proxy_read_timeout ")
        configuration = f"proxy_read_timeout {read_timeout_s}s;".join([words[0], words[1].split(";", 1)[1]])
        assert "listen 80;" in configuration
        assert "127.0.0.1:8000" in configuration
        configuration = configuration.replace("listen 80;", f"listen 127.0.0.1:{self.port};")
        (folder / "site.conf").write_text(configuration.replace("127.0.0.1:8000", f"127.0.0.1:{site.port}"))
        (folder / "nginx.conf").write_text(MAIN.format(folder=folder))
        log = folder / "nginx.log"
        argv = [program, "-c", str(folder / "nginx.conf"), "-e", str(log), "-p", str(folder)]
        self._process = Child(argv, site.env, folder / "nginx.out")
        eventually(self._listens)

    def _listens(self) -> bool:
        assert self._process.popen.poll() is None, self._process.lines
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """End it."""
        self._process.end()


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]
