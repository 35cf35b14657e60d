"""Owns that the plugin fails skipped tests on CI and leaves them alone elsewhere, in a pytest of its own."""

import os
import subprocess
import sys

import pytest

from deploy.setup.places import ROOT

TESTS = """
import pytest

def test_passes():
    pass

def test_skips():
    pytest.skip("no browser")

@pytest.mark.skipif(True, reason="no root")
def test_is_skipped_by_a_mark():
    pass

@pytest.mark.xfail(reason="known")
def test_is_known_to_fail():
    assert False
"""


@pytest.mark.parametrize(
    ("ci", "closing"), [("true", "1 failed, 1 passed, 1 xfailed, 1 error"), ("", "1 passed, 2 skipped, 1 xfailed")]
)
def test_a_skip_fails_on_ci_only(tmp_path, ci, closing):
    (tmp_path / "test_some.py").write_text(TESTS)
    options = ["-p", "tests.plugins.no_skips", "-c", os.devnull, "--rootdir", str(tmp_path)]
    argv = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    env = os.environ | {"CI": ci, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert closing in done.stdout
    assert ("CI skips nothing: Skipped: no browser" in done.stdout) == bool(ci)
