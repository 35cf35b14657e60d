"""Owns what the drills' commands share: seed and models from the environment, a folder, an end by Ctrl-C or SIGTERM."""

import atexit
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.child import ROOT


def seed() -> int:
    """SEED, or one that nobody chose."""
    return int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))


def model_dir() -> Path:
    """Where the models are."""
    return Path(os.environ.get("MODEL_DIR") or ROOT / "var" / "models")


def folder() -> Path:
    """One of its own, which goes with the process.

    Not a context manager: the PostgreSQL wheel writes a lock file there again while the interpreter ends.
    """
    made = Path(tempfile.mkdtemp(prefix="drill-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def run(main: Callable[[], int]) -> None:
    """Exit with what it returns; a SIGTERM ends what it started, as a Ctrl-C does."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
