"""Owns that two `make` never work on one folder at a time. The lock is the folder itself and ends with its process."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from deploy.setup.console import SetupError, say


@contextlib.contextmanager
def waiting_lock(folder: Path, doing: str) -> Iterator[None]:
    """Wait for another set-up of the same folder to end, and say so."""
    with _opened(folder) as descriptor:
        if not _taken(descriptor):
            say(f"==> Another `make` is working in {folder}: waiting for it before {doing}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Refuse when the folder is in use; forked children keep the lock until the last of them is gone."""
    with _opened(folder) as descriptor:
        if not _taken(descriptor):
            raise SetupError(f"{folder} is in use by another `make run`: stop it, or choose another DATA_DIR")
        yield


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
