"""Owns the file lock that lets one process at a time serve a SQLite database; does not know what it protects."""

import fcntl
import os
from pathlib import Path


class LockHeldError(RuntimeError):
    """Another process holds the lock; the message names the file and, where it can be read, the process."""


class ProcessLock:
    """An advisory lock that the kernel gives back when its process dies, however it dies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock for the life of this process, or raise LockHeldError at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise LockHeldError(f"{self.path} is held by process {owner}") from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Give it back early. The file stays: removing it would let two processes lock two files of one name."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None
