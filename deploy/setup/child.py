"""Owns one supervised process until the last one that it started is gone. Decides nothing about the others."""

import contextlib
import os
import signal
import subprocess
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import Any

from honcho.process import Process

ORPHAN_STOP_S = 5.0
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}


class Child(Process):
    """Runs in a small process of its own beside the supervisor, as honcho arranges it.

    What honcho's own class leaves open: a grandchild that keeps the output open hides the child's death, those it
    started stay behind, and a supervisor that is killed leaves everything running.
    """

    def run(self, events: Any = None, ignore_signals: bool = False) -> None:
        self._events = events
        for number in STOP_SIGNALS:  # the supervisor decides; a handler, not SIG_IGN, because programs inherit that
            signal.signal(number, _leave_to_the_supervisor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {self.cmd}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.env,
            cwd=self.cwd,
            start_new_session=True,
        )
        self._send_message({"pid": process.pid}, type="start")
        reading = threading.Thread(target=self._read, args=(process,), daemon=True)
        reading.start()
        threading.Thread(target=_end_with_the_supervisor, args=(process,), daemon=True).start()
        process.wait()
        kill_group(process.pid)
        reading.join(1)
        self._send_message({"returncode": process.returncode}, type="stop")

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._send_message(line)


def kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _leave_to_the_supervisor(number: int, frame: object) -> None:
    """Ctrl-C reaches the whole terminal; only the supervisor acts on it."""


def _end_with_the_supervisor(process: subprocess.Popen[bytes]) -> None:
    supervisor = parent_process()
    if supervisor is None:
        return
    wait([supervisor.sentinel])
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ORPHAN_STOP_S)
    kill_group(process.pid)
    os._exit(1)  # an ordinary exit would wait for somebody to read the events
