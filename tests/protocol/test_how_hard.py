"""Owns that a law cannot be tried less than its profile says, in a pytest of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hypothesis import settings

LAWS = """
from hypothesis import example, given, settings, strategies as st

@given(st.integers())
def test_of_many(number):
    pass

@given(st.integers(0, 9))
@example(10)
def test_of_few(number):
    pass

@settings(max_examples=20)
@given(st.integers())
def test_that_is_content_with_less(number):
    pass

def test_that_is_no_law():
    pass
"""


def test_a_law_with_fewer_examples_than_its_profile_says_fails(tmp_path):
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    (tmp_path / "test_laws.py").write_text(LAWS)
    plain = ["-p", "_hypothesis_pytestplugin", "-c", os.devnull, "--rootdir", str(tmp_path)]
    argv = [sys.executable, "-m", "pytest", "-q", *plain, str(tmp_path)]
    env = os.environ | {"HYPOTHESIS_PROFILE": "quick", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 failed, 2 passed" in done.stdout
    assert "only 10 examples: fewer than 60" in done.stdout
    assert "only 20 examples: fewer than 60" in done.stdout


def test_the_thorough_profile_wants_ten_thousand():
    assert settings.get_profile("thorough").max_examples == 10_000
