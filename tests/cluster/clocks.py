"""Owns wall clocks that a test sets while the process that reads them runs. Monotonic clocks stay what they are."""

import importlib.util
import platform
import shutil
from pathlib import Path

import pytest


def library() -> Path:
    """libfaketime as its wheel has it, which is built for one kind of machine; skips on others."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        pytest.skip("the wheel of libfaketime holds a library for Linux on x86-64 only")
    found = importlib.util.find_spec("libfaketime")
    assert found
    assert found.origin
    return Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"


class Clock:
    """The time of day of whoever is started with this environment."""

    def __init__(self, file: Path):
        self._file = file
        self.set(0)
        # A copy: the loader takes a space for the end of a path, and the project may lie in a folder that has one.
        preloaded = Path(shutil.copy(library(), file.with_suffix(".so")))
        # PostgreSQL runs as another user where we are root.
        file.parent.chmod(0o755)
        file.chmod(0o644)
        preloaded.chmod(0o755)
        self.environment = {
            "LD_PRELOAD": str(preloaded),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Else Python's lock is waited for by a clock that is not faked as if it were.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

    def set(self, ahead_s: int) -> None:
        """So much later than the truth it is from now on."""
        self._file.write_text(f"{ahead_s:+d}\n")
