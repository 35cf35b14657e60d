"""Owns that the plugin tells what a test leaves in its process, in a pytest of its own. Costs about 2 s."""

import os
import subprocess
import sys

from deploy.setup.places import ROOT

TESTS = """
import logging, os, signal, sys, time
import pytest
from celery import Celery

@pytest.fixture
def folder(tmp_path):
    before = os.getcwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)

def test_gives_all_back(folder, monkeypatch):
    monkeypatch.setenv("SET_FOR_A_TEST", "1")
    monkeypatch.syspath_prepend("somewhere")
    logging.getLogger("of a module that was imported").setLevel("ERROR")
    Celery(set_as_current=False)

def test_is_the_first_that_needs_an_application():
    Celery()

def test_leaves_a_variable():
    os.environ["SET_FOR_EVER"] = "1"

def test_leaves_its_handler():
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

def test_leaves_a_silent_log():
    logging.disable()

def test_leaves_its_application():
    Celery()

def test_leaves_its_time_zone():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()

def test_comes_after_all_of_them():
    pass
"""
KINDS = ("environment", "signal", "logger", "Celery application", "process")


def test_what_a_test_leaves_for_the_next_is_told_at_itself_and_by_its_name(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    options = ["-p", "tests.plugins.nothing_left", "-c", os.devnull, "--rootdir", str(tmp_path)]
    argv = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(
        argv, env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "8 passed, 5 errors" in done.stdout, done.stdout
    assert all(f"left behind ({kind})" in done.stdout for kind in KINDS)
    assert "ERROR test_some.py::test_leaves_a_variable - AssertionError" in done.stdout
