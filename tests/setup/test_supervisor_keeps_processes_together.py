"""Owns the promises of the supervisor, with real processes: one end for all, in time, nothing left behind."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import psutil
import pytest

from deploy.setup import places
from tests.setup.family import still_running

MAIN = """
import json, os, sys
from deploy.setup.supervisor import Command, Supervisor
if __name__ == "__main__":
    commands = [Command(*one) for one in json.loads(sys.argv[1])]
    sys.exit(Supervisor(commands, dict(os.environ), os.getcwd()).run())
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
POLITE = "import signal; print('up', flush=True); signal.pause()"
WITH_A_CHILD = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}]); {outer}"
#: The supervisor's own limit is 8 s; a busy machine needs its time to show the end.
STOP_WITHIN_S = 30


def python(code):
    """A shell line that runs some Python."""
    return shlex.join([sys.executable, "-c", code])


class Running:
    """A supervisor in a process of its own, and all processes that have been seen under it."""

    def __init__(self, commands, script):
        argv = [sys.executable, str(script), json.dumps(commands)]
        env = os.environ | {"PYTHONPATH": str(places.ROOT), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.family = []

    def until(self, text, times=1):
        """Read the output up to the given occurrence of `text`, then note who is alive."""
        lines = []
        while sum(text in line for line in lines) < times:
            line = self.process.stdout.readline()
            assert line, f"ended without {text!r}: {''.join(lines)}"
            lines.append(line)
        self.family = psutil.Process(self.process.pid).children(recursive=True)
        return "".join(lines)

    def end(self):
        """The rest of the output, and the exit code."""
        output, _ = self.process.communicate(timeout=STOP_WITHIN_S)
        return output, self.process.returncode

    def left_over(self):
        return still_running(self.family, STOP_WITHIN_S)


@pytest.fixture
def supervise(tmp_path):
    script = tmp_path / "a folder" / "main.py"
    script.parent.mkdir()
    script.write_text(MAIN)
    started = []

    def start(*commands):
        started.append(Running(commands, script))
        return started[-1]

    yield start
    for running in started:
        for process in running.family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        running.process.kill()
        running.process.wait()


def test_each_line_says_which_process_wrote_it(supervise):
    running = supervise(("talker", python("print('hello'); import signal; signal.pause()")), ("other", python(POLITE)))
    assert " talker | hello" in running.until("hello")


def test_a_line_that_shall_stay_unsaid_is_left_out_for_that_process_alone(supervise):
    advice = "print('# WARNING buy more');"
    one, two = python(advice + POLITE), python(advice + POLITE)
    output = supervise(("one", one, 0, "WARNING buy"), ("two", two)).until("| up", 2)
    assert re.findall(r"(\w+) +\| # WARNING buy more", output) == ["two"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_with_a_code_that_tells_it(supervise, number):
    running = supervise(("one", python(POLITE)), ("two", python(POLITE)))
    running.until("| up", 2)
    running.process.send_signal(number)
    output, code = running.end()
    assert code == 128 + number
    assert "killed" not in output
    assert running.left_over() == []


def test_ctrl_c_in_a_terminal_reaches_the_whole_group_and_ends_all_the_same(supervise):
    running = supervise(("one", python(POLITE)), ("two", python(POLITE)))
    running.until("| up", 2)
    os.killpg(running.process.pid, signal.SIGINT)
    output, code = running.end()
    assert code == 130
    assert "Traceback" not in output
    assert running.left_over() == []


def test_children_that_all_ignore_sigterm_are_gone_in_time_with_their_own_children(supervise):
    nest = python(WITH_A_CHILD.format(inner=STUBBORN, outer=STUBBORN))
    running = supervise(("one", nest), ("two", nest))
    running.until("| up", 4)
    assert len(running.family) >= 6
    running.process.send_signal(signal.SIGINT)
    output, code = running.end()
    assert code == 130
    assert "one did not stop within 8 s: killed" in output
    assert running.left_over() == []


@pytest.mark.parametrize(("ending", "code"), [("sys.exit(3)", 3), ("sys.exit(0)", 1), ("os.kill(os.getpid(), 9)", 137)])
def test_a_child_that_ends_ends_everything_with_a_clear_line(supervise, tmp_path, ending, code):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    fragile = f"import os, sys; print('up', flush=True); open({str(gate)!r}).read(); {ending}"
    running = supervise(("fragile", python(fragile)), ("steady", python(POLITE)))
    running.until("| up", 2)
    gate.write_text("")
    output, exit_code = running.end()
    assert "fragile ended with code" in output
    assert exit_code == code
    assert running.left_over() == []


def test_a_grandchild_that_keeps_the_output_open_does_not_hide_a_death(supervise):
    nest = WITH_A_CHILD.format(inner=STUBBORN, outer="import os; print('pid', os.getpid(), flush=True);" + POLITE)
    running = supervise(("parent", python(nest)), ("steady", python(POLITE)))
    output = running.until("| up", 3)
    os.kill(int(re.search(r"\| pid (\d+)", output)[1]), signal.SIGKILL)
    output, code = running.end()
    assert "parent ended with code -9" in output
    assert code == 137
    assert running.left_over() == []


def test_a_supervisor_that_is_killed_takes_everything_with_it(supervise):
    running = supervise(("one", python(WITH_A_CHILD.format(inner=STUBBORN, outer=POLITE))), ("two", python(POLITE)))
    running.until("| up", 3)
    running.process.kill()
    running.process.wait()
    assert running.left_over() == []


def test_a_killed_keeper_counts_as_the_death_of_its_process(supervise):
    running = supervise(("one", python(POLITE)), ("two", python(POLITE)))
    running.until("| up", 2)
    psutil.Process(running.process.pid).children()[0].kill()
    output, code = running.end()
    assert "ended with code 1: stopping everything" in output
    assert code == 1
    assert running.left_over() == []


def test_a_later_wave_outlives_what_needs_it(supervise):
    on_stop = (
        "import signal, sys; signal.signal(15, lambda *_: sys.exit('{}')); print('up', flush=True); signal.pause()"
    )
    running = supervise(
        ("needed", python(on_stop.format("the needed one stops")), 1),
        ("user", python(on_stop.format("drained")), 0),
    )
    running.until("| up", 2)
    running.process.send_signal(signal.SIGTERM)
    output, _ = running.end()
    assert output.index("drained") < output.index("user stopped") < output.index("the needed one stops")


def test_a_reader_of_the_output_that_left_does_not_stop_or_strand_the_processes(supervise):
    running = supervise(("loud", python("print('up', flush=True)\nwhile True: print('x' * 200, flush=True)")))
    running.until("| up")
    running.process.stdout.close()
    assert running.process.poll() is None
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(STOP_WITHIN_S) == 143
    assert running.left_over() == []
