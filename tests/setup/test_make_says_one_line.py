"""Owns that what a person can do something about ends in one line and an exit code, never in a traceback."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys

import psutil
import pytest

from deploy.setup import console, locks, places
from deploy.setup.console import SetupError
from tests.setup.family import still_running

START = places.ROOT / "deploy" / "setup" / "start.sh"


def make(command, **env):
    """The same as `make command`, by the Python that runs the tests."""
    argv = [sys.executable, "-m", "deploy.setup", command]
    return subprocess.run(
        argv, cwd=places.ROOT, env=os.environ | env, capture_output=True, text=True, timeout=120, check=False
    )


def one_line(done):
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", ["run", "cluster"])
def test_a_port_in_use_is_said_before_anything_else_happens(tmp_path, command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = one_line(make(command, PORT=str(port), HOST="127.0.0.1", DATA_DIR=str(tmp_path / "data")))
    assert line == (
        f"make {command}: port {port} of 127.0.0.1 cannot be used (Address already in use): "
        f"choose another, as PORT={port + 1}"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("port", ["http", "-1", "65536", "8000 ", "٣"])
def test_a_port_that_is_no_port_is_named(tmp_path, port):
    assert f"PORT must be a number from 0 to 65535, not {port!r}" in one_line(make("run", PORT=port))


def test_a_host_that_is_not_ours_is_named(tmp_path):
    line = one_line(make("run", HOST="192.0.2.1", PORT="0", DATA_DIR=str(tmp_path)))
    assert "192.0.2.1 cannot be used" in line


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    line = one_line(make("run", PORT="0", DATA_DIR=str(tmp_path / "file" / "data")))
    assert line == f"make run: Not a directory ({tmp_path / 'file' / 'data'})"


def test_a_data_folder_in_use_is_said(tmp_path):
    with locks.only_one(tmp_path):
        line = one_line(make("run", PORT="0", DATA_DIR=str(tmp_path)))
    assert f"{tmp_path} is in use by another `make run`" in line


def test_a_machine_without_a_usable_python_is_told_what_it_needs(tmp_path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    env = {"PATH": str(tmp_path)}
    done = subprocess.run(["/bin/sh", str(START), "run"], env=env, capture_output=True, text=True, check=False)
    assert "make run: no usable Python: 3.11 or newer" in one_line(done)


def test_a_failing_step_is_its_last_complaint_and_where_to_read_more(tmp_path):
    log = tmp_path / "logs" / "step.log"
    code = "print('fine'); print('ERROR: no such thing'); print('bye'); raise SystemExit(3)"
    with pytest.raises(SetupError) as failure:
        console.run_logged("Doing it", [sys.executable, "-c", code], log)
    assert str(failure.value) == f"Doing it failed: ERROR: no such thing (all of it: {log})"


def test_a_long_step_gives_signs_of_life(tmp_path, monkeypatch):
    """The step goes on until one of them says how far it is."""
    monkeypatch.setattr(console, "PROGRESS_S", 0.05)
    seen, signs = tmp_path / "seen", []

    def say(text):
        signs.append(text)
        if "half way" in text:
            seen.touch()

    monkeypatch.setattr(console, "say", say)
    code = (
        "import pathlib, sys, time; print('half way', flush=True)\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)"
    )
    console.run_logged("Waiting", [sys.executable, "-c", code, str(seen)], tmp_path / "step.log")
    assert re.fullmatch(r"    Waiting: \d+ s  half way", signs[-1])


def test_advice_of_pip_and_npm_is_no_sign_of_life_but_stands_in_the_log(tmp_path):
    log = tmp_path / "step.log"
    log.write_text("added 3 packages\nWARNING: You are using root\nnpm warn EBADENGINE }\nnpm notice New version\n")
    assert console.last_line(log) == "added 3 packages"


def test_an_interrupted_step_takes_its_own_children_along(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "PROGRESS_S", 0.05)
    log = tmp_path / "step.log"

    def interrupt(text):
        if "pid" in text:
            raise KeyboardInterrupt

    monkeypatch.setattr(console, "say", interrupt)
    with pytest.raises(KeyboardInterrupt):
        console.run_logged("Waiting", ["/bin/sh", "-c", "sleep 1000 & echo pid $!; wait"], log)
    with contextlib.suppress(psutil.NoSuchProcess):
        left = psutil.Process(int(log.read_text().split()[1]))
        assert still_running([left], within_s=30) == []


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_hands_on_the_exit_code():
    done = subprocess.run(
        ["make", "run"], cwd=places.ROOT, env=os.environ | {"PORT": "x"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "make run: PORT must be" in done.stderr
