"""Owns that the plugin gives each worker what is its own, and runs nothing beside what has to be alone."""

import os
import subprocess
import sys

import pytest

from deploy.setup.places import ROOT

WRITES = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("nth", range(3))
def test_writes_who_runs_it(nth):
    with Path(os.environ["SEEN"]).open("a") as seen:
        seen.write(f"{os.environ['PYTEST_XDIST_WORKER']} {__file__}\\n")
"""
OF_THE_SITE = ("tests/e2e/test_deaths.py", "tests/sdk/test_one.py", "tests/browser/test_one.py")
OF_ALL = ("tests/e2e/test_costs.py", "tests/drill/test_one.py", "tests/app/test_one.py", "tests/app/test_two.py")
ALONE = ("tests/bench/test_one.py",)


def run(folder, *args):
    plugins = [f"-p{name}" for name in ("xdist.plugin", "tests.plugins.site", "tests.plugins.workers")]
    options = [*plugins, "-c", os.devnull, "--rootdir", str(folder), "--import-mode", "importlib"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "SEEN": str(folder / "seen"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    env = {name: value for name, value in env.items() if not name.startswith("PYTEST_XDIST")}
    argv = [sys.executable, "-m", "pytest", *options, *args, str(folder)]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


def write(folder, files, text):
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_site_has_one_worker_and_what_measures_comes_when_all_others_are_done(tmp_path, workers):
    write(tmp_path, [*OF_THE_SITE, *OF_ALL, *ALONE], WRITES)
    done = run(tmp_path, "-n", str(workers))
    assert "24 passed" in done.stdout, done.stdout
    lines = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    ran = [(worker, os.path.relpath(file, tmp_path)) for worker, file in lines]
    who = {file: {worker for worker, at in ran if at == file} for _, file in ran}
    (at_the_site,) = set.union(*(who[file] for file in OF_THE_SITE))
    assert [file for _, file in ran if file in OF_THE_SITE][-3:] == ["tests/browser/test_one.py"] * 3
    if workers > 1:
        assert all(at_the_site not in who[file] for file in (*OF_ALL, *ALONE))
        assert [file for _, file in ran[-3:]] == [*ALONE] * 3


def test_who_uses_the_suites_site_where_the_books_do_not_see_it_is_told(tmp_path):
    write(tmp_path, ["tests/app/test_one.py"], "def test_asks(site):\n    pass\n")
    done = run(tmp_path, "--collect-only")
    assert done.returncode != 0
    assert "tests/app/test_one.py::test_asks uses the suite's site" in done.stdout + done.stderr
