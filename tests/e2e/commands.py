"""Owns the management commands of a site under test: each a process of its own, forked from one that has Django up.

To start Django costs more than a second of CPU, and most sites run several commands. As a script it is that process:
each line names files for what is printed, and a command; the answer is its exit code. Knows no command.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.child import ROOT

#: A command that takes longer hangs, and is ended.
LONGEST_S = 120


class Commands:
    """Runs commands in one environment, as `manage.py` does."""

    def __init__(self, env: Mapping[str, str], folder: Path):
        self.env = dict(env)
        self._files = [folder / "command.out", folder / "command.err"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={"DJANGO_SETTINGS_MODULE": "chatsite.settings", **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str) -> str:
        """What the command prints; it must not fail."""
        done = self.done(*args)
        assert done.returncode == 0, f"{args}: {done.returncode}\n{done.stderr}"
        return done.stdout.strip()

    def done(self, *args: str) -> subprocess.CompletedProcess[str]:
        """The command, to its end."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([[str(file) for file in self._files], args]) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(args, code, *(file.read_text() for file in self._files))

    def close(self) -> None:
        """End the process that forks."""
        self._process.communicate(timeout=20)


def _main() -> None:
    import django
    from django.core.checks import run_checks

    django.setup()
    run_checks()  # loads what the checks of each command would load
    for line in sys.stdin:
        files, args = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(files, args)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(files: Sequence[str], args: Sequence[str]) -> None:
    """Be the command, to its end."""
    from django.core.management import execute_from_command_line

    for descriptor, file in zip((1, 2), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
    signal.alarm(LONGEST_S)
    code = 1
    try:
        execute_from_command_line(["manage.py", *args])
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    except Exception:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without taking all of Django apart


if __name__ == "__main__":
    _main()
