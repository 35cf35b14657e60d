"""Owns a PostgreSQL that a test mistreats: paused, killed, stopped, configured anew. Knows no site and no test."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import psutil
import psycopg

from tests.databases import server
from tests.e2e.reading import eventually

END_S = 10
#: Only the machine dying needs fsync, and no machine dies here.
ALWAYS = {"fsync": "off", "autovacuum": "off"}


class Database:
    """A PostgreSQL server of its own; what is in ``configuration`` counts from its first start on."""

    def __init__(self, **configuration: str):
        self._server = server()
        self.url = self._server.get_uri()
        self.configure(**ALWAYS, **configuration)

    def configure(self, **configuration: str) -> None:
        """Start it again with these settings."""
        with (self._server.pgdata / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in configuration.items())
        self.stop()
        self.start()

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it, with something more in its environment, and wait until it takes connections."""
        before = dict(os.environ)
        os.environ.update(environment or {})
        try:
            self._server.ensure_postgres_running()
        finally:
            os.environ.clear()
            os.environ.update(before)

    def stop(self) -> None:
        """An immediate shutdown, as of a machine that is restarted: no checkpoint, everybody is hung up on."""
        processes = self.processes()
        processes[0].send_signal(signal.SIGQUIT)
        self._await_end(processes)

    def kill(self, when: Callable[[psycopg.Connection], bool]) -> None:
        """kill -9 of everything at once, in the instant when something is true."""
        with self.connect() as connection:
            eventually(lambda: when(connection), pause_s=0.002)
            processes = self._without_more()
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        self._await_end(processes)

    def _await_end(self, processes: list[psutil.Process]) -> None:
        _gone, left = psutil.wait_procs(processes, END_S)
        assert not left

    def processes(self) -> list[psutil.Process]:
        """The postmaster, then its children."""
        postmaster = psutil.Process(self._server.get_pid())
        return [postmaster, *postmaster.children(recursive=True)]

    def _without_more(self) -> list[psutil.Process]:
        """Those that there are; the postmaster stands still, so that it starts no more of them."""
        psutil.Process(self._server.get_pid()).suspend()
        return self.processes()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nobody answers and nobody hangs up, as with a disk that hangs."""
        processes = self._without_more()
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        try:
            yield
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def connect(self) -> psycopg.Connection:
        """A connection of the test's own."""
        return psycopg.connect(self.url, autocommit=True)

    def close(self) -> None:
        """End it for good."""
        self._server.cleanup()
