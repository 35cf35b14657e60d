"""Owns `.venv`: made once, filled when the requirements changed, made anew when an installation was cut short."""

import shutil
import sys
from collections.abc import Sequence

from deploy.setup import stamps
from deploy.setup.console import SetupError, fetch_logged, run_logged, say
from deploy.setup.places import PYTHON, ROOT, VENV, log_file

UNFINISHED = VENV / ".installing"
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")


def ensure(requirements: Sequence[str]) -> None:
    """`requirements` names files of the checkout; the last one includes those before it."""
    wanted = stamps.digest([ROOT / name for name in requirements])
    stamp = VENV / f".{requirements[-1]}.stamp"
    if PYTHON.exists() and not UNFINISHED.exists() and stamps.matches(stamp, wanted):
        return
    if UNFINISHED.exists() or not PYTHON.exists():
        _make_anew()
    _install(requirements[-1])
    for count in range(1, len(requirements) + 1):
        stamps.write_whole(
            VENV / f".{requirements[count - 1]}.stamp", stamps.digest([ROOT / name for name in requirements[:count]])
        )


def _make_anew() -> None:
    say(f"==> Making {VENV} with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir()
    UNFINISHED.touch()
    run_logged("Making the virtual environment", [sys.executable, "-m", "venv", str(VENV)], log_file("venv"))


def _install(name: str) -> None:
    say(f"==> Installing {name}")
    # pip that dies half-way leaves packages that look installed: while this file stands, nothing here is trusted.
    UNFINISHED.touch()
    pip_install(f"Installing {name}", "-r", str(ROOT / name))
    UNFINISHED.unlink()


def pip_install(step: str, *what: str) -> None:
    argv = [str(PYTHON), *PIP, "install", "--progress-bar", "off", *what]
    fetch_logged(step, argv, log_file("pip"), cwd=ROOT)


def require_posix() -> None:
    if sys.platform == "win32":
        raise SetupError("Windows is not supported: use WSL")
