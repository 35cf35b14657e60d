"""Owns a real PgBouncer before a PostgreSQL, on one port through kills and restarts. Knows no site and no test."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from chatsite.free_ports import free_port
from tests.child import Child
from tests.e2e.reading import eventually

NAME = "chat"
#: As docs/operations.md has it, but for where things are.
CONFIGURATION = """
[databases]
{name} = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = console
pool_mode = {mode}
default_pool_size = 20
max_client_conn = 500
query_wait_timeout = 5
{more}
"""


def program() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip("no pgbouncer here; on Debian: apt-get install pgbouncer")
    return found


class Bouncer:
    """``url`` leads through it to the database; ``more`` are further lines of its configuration."""

    def __init__(self, database_url: str, mode: str, more: str = ""):
        self._program = program()
        self.server_url = database_url
        self.port = free_port()
        self.url = f"postgresql://anybody@127.0.0.1:{self.port}/{NAME}"
        # It never runs as root, so its folder cannot lie among pytest's.
        self._folder = Path(tempfile.mkdtemp(prefix="chatsite-pgbouncer-"))
        self._folder.chmod(0o755)
        to = conninfo_to_dict(database_url)
        self._server_socket = Path(to["host"])
        server = " ".join(f"{key}={value}" for key, value in to.items() if value)
        told = {"name": NAME, "server": server, "port": self.port, "mode": mode, "more": more}
        self._file = self._folder / "pgbouncer.ini"
        self._file.write_text(CONFIGURATION.format(**told))
        self._process: Child | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it lets somebody in."""
        user = ["-u", self._server_socket.owner()] if os.geteuid() == 0 else []
        self._process = Child([self._program, *user, str(self._file)], os.environ, self._folder / "log")
        eventually(self._listens)

    def _listens(self) -> bool:
        assert self._process.popen.poll() is None, self._process.lines
        try:
            self.console("SHOW VERSION")
        except psycopg.OperationalError:
            return False
        return True

    def console(self, command: str) -> None:
        """Say something in its console."""
        with psycopg.connect(self.url.replace("anybody", "console").replace(NAME, "pgbouncer"), autocommit=True) as at:
            at.pgconn.exec_(command.encode())

    def kill(self) -> None:
        """kill -9."""
        self._process.end(signal.SIGKILL)

    def close(self) -> None:
        """End it, and take its folder away."""
        self._process.end(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)
