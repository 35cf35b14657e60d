"""Owns keeping a set of processes together: one output, one end. Knows no process by name.

honcho starts, prefixes and multiplexes. Three of its laws are replaced here: it kills only after some child has
died by itself (all of them may ignore SIGTERM), it ends everybody at once (what a draining process needs must
outlive it), and its exit code is 0 when a child that should stay ends well.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from honcho.manager import Manager
from honcho.printer import Message, Printer

from deploy.setup.child import STOP_SIGNALS, Child, kill_group
from deploy.setup.console import SetupError

NEXT_WAVE_S = 5.0
STOP_S = 8.0
REPORT_S = 0.7
LOOK_EVERY_S = 0.05
PLAIN = "plain"


@dataclass(frozen=True)
class Command:
    """One process: `wave` 0 is stopped first; a later wave once those before it are gone or late. Lines of its
    output that have `unsaid` in them are not shown."""

    name: str
    shell_line: str
    wave: int = 0
    unsaid: str | None = None


class Supervisor(Manager):
    """`run()` returns the exit code when every process, and all that they started, is gone."""

    def __init__(self, commands: Iterable[Command], env: dict[str, str], cwd: str):
        commands = list(commands)
        super().__init__(_Lines(_Terminal(), {command.name: command.unsaid for command in commands}))
        self._process_ctor = Child
        self._waves: dict[str, int] = {}
        self._stopping = False
        self._beside: Callable[[Supervisor], None] | None = None
        for command in commands:
            self.add_process(command.name, command.shell_line, env=env, cwd=cwd)
            self._waves[command.name] = command.wave

    def run(self, beside: Callable[["Supervisor"], None] | None = None) -> int:
        """Start all and stay until the end. `beside` runs in a thread of its own; its SetupError ends everything."""
        self._beside = beside
        self.loop()
        code = int(self.returncode or 0)
        return 128 - code if code < 0 else code or 1

    def say(self, text: str, *, plain: bool = False) -> None:
        """A line of the supervisor's own; a plain one has no prefix, for programs that look for it."""
        self._printer.write(Message("line", text + "\n", self._clock.now(), PLAIN if plain else "run", None))

    def terminate(self) -> None:
        """Called by honcho at a signal and at the first death."""
        if self._stopping:
            return
        self._stopping = True
        threading.Thread(target=self._stop_in_waves, daemon=True).start()

    def kill(self) -> None:
        """honcho's own deadline counts from the first death; ours, in `_stop_in_waves`, from the wish to stop."""

    def _start(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        super()._start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        threading.Thread(target=self._watch_keepers, daemon=True).start()
        if self._beside:
            threading.Thread(target=self._run_beside, args=(self._beside,), daemon=True).start()

    def _run_beside(self, beside: Callable[["Supervisor"], None]) -> None:
        try:
            beside(self)
        except SetupError as failure:
            if not self._stopping:
                self.say(str(failure))
                self.returncode = 1
                self.terminate()

    def _watch_keepers(self) -> None:
        """A keeper that is killed says nothing about its child, and may hold the lock of the queue of events for
        ever: note the death past the queue."""
        keepers = {process["process"].sentinel: name for name, process in self._processes.items()}
        while keepers:
            for sentinel in wait(list(keepers)):
                name = keepers.pop(sentinel)
                process = self._processes[name]
                process["process"].join()
                if process["process"].exitcode:
                    kill_group(process.setdefault("pid", process["process"].pid))
                    process["returncode"] = self.returncode = self.returncode or 1

    def _stop_in_waves(self) -> None:
        started_s = time.monotonic()
        dead = [f"{name} ended with code {process['returncode']}" for name, process in self._dead()]
        self.say(f"{', '.join(dead) or 'Asked to stop'}: stopping everything")
        asked: set[str] = set()
        while len(self._dead()) < len(self._processes):
            left = self._left()
            waited_s = time.monotonic() - started_s
            first = min((self._waves[name] for name in left), default=0)
            if waited_s > STOP_S:
                self._kill(left)
                return
            for name, pid in left.items():
                if name not in asked and (self._waves[name] == first or waited_s > NEXT_WAVE_S):
                    asked.add(name)
                    _ask_to_stop(pid)
            time.sleep(LOOK_EVERY_S)

    def _kill(self, left: dict[str, int]) -> None:
        """First what does not stop, then the keepers that could not report it."""
        for name, pid in left.items():
            self.say(f"{name} did not stop within {STOP_S:.0f} s: killed")
            kill_group(pid)
        time.sleep(REPORT_S)
        for process in self._processes.values():
            if "returncode" not in process:
                process["process"].kill()

    def _left(self) -> dict[str, int]:
        return {
            name: process["pid"]
            for name, process in self._processes.items()
            if "pid" in process and "returncode" not in process
        }

    def _dead(self) -> Sequence[tuple[str, dict[str, Any]]]:
        return [(name, process) for name, process in self._processes.items() if "returncode" in process]


def _ask_to_stop(pid: int) -> None:
    """Only the leader: it knows in which order its own children end, and what is left is killed after it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


class _Lines(Printer):
    """honcho's prefixed lines, but for those that say themselves who speaks, and without those that stay unsaid."""

    def __init__(self, output: "_Terminal", unsaid: Mapping[str, str | None]):
        super().__init__(output)
        self._unsaid = {name: text.encode() for name, text in unsaid.items() if text}

    def write(self, message: Any) -> None:
        if message.name == PLAIN:
            self.output.write(message.data)
        elif not (message.name in self._unsaid and self._unsaid[message.name] in message.data):
            super().write(message)


class _Terminal:
    """Standard output, written past Python's buffer: honcho also prints in its signal handler, where a buffer that
    was just being written raises. A reader that left is no reason to leave the processes alone."""

    def __init__(self) -> None:
        self._begun = threading.local()

    def isatty(self) -> bool:
        return os.isatty(1)

    def write(self, text: str) -> None:
        """Whole lines only, so that two threads do not mix theirs."""
        line = getattr(self._begun, "text", "") + text
        self._begun.text = "" if line.endswith("\n") else line
        data = b"" if self._begun.text else line.encode(errors="replace")
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            return

    def flush(self) -> None:
        """Nothing is kept back."""
