"""Owns a child process of a test: its lines as they are printed, waited for, and its end. Knows no site."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START_S = 60
LAST_LINES_S = 5


class Child:
    """What it prints is kept, in ``log`` too where there is one."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], log: Path | None = None, pass_fds: Sequence[int] = ()
    ):
        self.popen = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._has_ended = False
        threading.Thread(target=self._read, args=(log,), daemon=True).start()

    def _read(self, log: Path | None) -> None:
        assert self.popen.stdout
        with (log or Path(os.devnull)).open("ab") as kept:
            for line in self.popen.stdout:
                kept.write(line)
                kept.flush()
                with self._changed:
                    self.lines.append(line.decode(errors="replace").rstrip())
                    self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def wait_for(self, pattern: str, count: int = 1, timeout_s: float = START_S, after: int = 0) -> re.Match[str]:
        """The count-th line that matches, behind so many lines, as soon as it is printed."""

        def found() -> list[re.Match[str]]:
            return [match for line in self.lines[after:] if (match := re.search(pattern, line))]

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= count or self._has_ended, timeout_s)
            matches = found()
        assert len(matches) >= count, f"{pattern!r} was not printed {count} times:\n" + "\n".join(self.lines[-30:])
        return matches[count - 1]

    def line_with(self, text: str, timeout_s: float = START_S, after: int = 0) -> str:
        """The first line that holds the text, behind so many lines, as soon as it is printed."""
        return self.wait_for(re.escape(text), timeout_s=timeout_s, after=after).string

    def end(self, signum: int = signal.SIGTERM, timeout_s: float = START_S) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(signum)
        return self.ended(timeout_s)

    def ended(self, timeout_s: float = START_S) -> int:
        """Wait for its end, and for all that it has printed; returns the exit code."""
        code = self.popen.wait(timeout_s)
        with self._changed:
            # A child of its own may have the other end of the pipe, and stay.
            self._changed.wait_for(lambda: self._has_ended, LAST_LINES_S)
        return code
