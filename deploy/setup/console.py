"""Owns what a person sees of the set-up: a line per step, a sign of life, one line for a failure. Knows no step."""

import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

PROGRESS_S = 5.0
LINE_CHARS = 80
FULL_BELOW_BYTES = 16 * 2**20
UNREACHABLE = re.compile(r"NewConnectionError|ConnectTimeout|ReadTimeout|ENOTFOUND|ECONNREFUSED|ETIMEDOUT")
#: pip asks again where it gets no connection or no answer, but not behind the first byte of one. What broke off may
#: look like a wheel that makes no sense.
BROKEN_OFF = re.compile(
    r"ConnectionResetError|Connection broken|IncompleteRead|ReadTimeoutError|not enough bytes|Wheel .* is invalid"
)
FETCHES = 3
COMPLAINT = re.compile(r"error|no space left", re.IGNORECASE)
#: What pip and npm say beside their work; it stands in the log.
ADVICE = re.compile(r"(npm )?(warn|notice)", re.IGNORECASE)


class SetupError(Exception):
    """One line for a person: what failed, and what can be done about it."""


def say(text: str) -> None:
    print(text, flush=True)


def run_logged(
    step: str, argv: Sequence[str], log: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    """Run a long command with its output in `log`; say every few seconds how far it is. A failure is one line."""
    started_s = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output, _own_group(argv, output, cwd, env) as process:
        while not _ended(process):
            say(f"    {step}: {time.monotonic() - started_s:.0f} s  {last_line(log)}".rstrip())
    if process.returncode:
        raise SetupError(f"{step} failed: {complaint(log)} (all of it: {log})")


def fetch_logged(
    step: str, argv: Sequence[str], log: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    """As ``run_logged``, for pip: begun again where a download broke off. What came whole pip has kept."""
    for left in reversed(range(FETCHES)):
        try:
            run_logged(step, argv, log, cwd=cwd, env=env)
            return
        except SetupError:
            if not (left and any(BROKEN_OFF.search(line) for line in _lines(log))):
                raise
            say(f"    {step}: a download broke off, trying again")


@contextlib.contextmanager
def _own_group(
    argv: Sequence[str], output: BinaryIO, cwd: Path | None, env: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[bytes]]:
    """A child in a process group of its own, which is gone when the block ends, however it ends."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(PROGRESS_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def last_line(log: Path) -> str:
    """What the command is at, shortened."""
    lines = [line for line in _lines(log) if not ADVICE.match(line)]
    return textwrap.shorten(lines[-1], LINE_CHARS, placeholder=" …") if lines else ""


def complaint(log: Path) -> str:
    """The line that says best why a command failed."""
    if shutil.disk_usage(log.parent).free < FULL_BELOW_BYTES:
        return f"the disk of {log.parent} is full"
    lines = _lines(log)
    worst = next(
        (line for line in reversed(lines) if COMPLAINT.search(line)), lines[-1] if lines else "it said nothing"
    )
    lonely = any(UNREACHABLE.search(line) for line in lines)
    return f"{worst}; the package registry could not be reached" if lonely else worst


def _lines(log: Path) -> list[str]:
    text = log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n")
    return [line.strip() for line in text.splitlines() if line.strip()]


@contextlib.contextmanager
def failures_in_one_line(command: str) -> Iterator[None]:
    """Turn what a person can do something about into one line and exit code 1, an interruption into 130."""
    try:
        yield
    except SetupError as failure:
        _leave(f"make {command}: {failure}", 1)
    except OSError as failure:
        where = failure.filename or "a file"
        full = failure.errno in {errno.ENOSPC, errno.EDQUOT}
        _leave(f"make {command}: {'the disk is full' if full else failure.strerror} ({where})", 1)
    except KeyboardInterrupt:
        _leave(f"make {command}: interrupted", 130)


def _leave(line: str, code: int) -> None:
    print(line, file=sys.stderr, flush=True)
    sys.exit(code)
