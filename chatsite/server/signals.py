"""Owns the process's signals and its last resort; does not know what they set off in the event loop."""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable

SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
FORCED_EXIT_CODE = 1
INTERRUPTED_EXIT_CODE = 130
#: A report is waited for so long, and the last resort comes after both reports of the end by force.
WRITE_S = 0.5
PATIENCE_S = 3.0


class SignalThread(threading.Thread):
    """Waits for signals beside the main thread, so that a hanging event loop can neither miss nor survive them."""

    def __init__(self, *, stop: Callable[[], None], describe: Callable[[], list[str]], deadline_s: float) -> None:
        super().__init__(name="signals", daemon=True)
        self._stop_serving = stop
        self._describe = describe
        self._deadline_s = deadline_s
        self._leaving = False

    def start(self) -> None:
        # Inherited by every later thread: only this one takes these signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        super().start()

    def run(self) -> None:
        while True:
            received = signal.sigwait(SIGNALS)
            if received == signal.SIGUSR1:
                self._report("live connections")
            elif not self._leaving:
                self._leave(received)
            elif received == signal.SIGINT:
                os._exit(INTERRUPTED_EXIT_CODE)

    def _leave(self, received: int) -> None:
        self._leaving = True
        # Written in C: ends the process even if Python's own lock is never given back.
        faulthandler.dump_traceback_later(self._deadline_s + PATIENCE_S, exit=True)
        deadline = threading.Timer(self._deadline_s, self._force)
        deadline.daemon = True
        deadline.start()
        self._write(f"{signal.Signals(received).name}: no new connections; leaving within {self._deadline_s:g} s")
        self._stop_serving()

    def _force(self) -> None:
        self._report("did not leave in time, ended by force with live connections")
        main = sys._current_frames().get(threading.main_thread().ident or 0)
        self._write("main thread:\n" + "".join(traceback.format_stack(main)))
        os._exit(FORCED_EXIT_CODE)

    def _report(self, title: str) -> None:
        lines = self._describe()
        self._write("\n  ".join([f"{title}: {len(lines)}", *lines]))

    def _write(self, text: str) -> None:
        # Not through logging: the thread that hangs may hold a handler's lock. Whoever should read this may be gone, or
        # not read: neither keeps the process.
        writer = threading.Thread(target=_to_stderr, args=(f"chatsite.server {text}\n".encode(),), daemon=True)
        writer.start()
        writer.join(WRITE_S)


def _to_stderr(data: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(2, data)
