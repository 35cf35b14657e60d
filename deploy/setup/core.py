"""Owns the proofs of the pure core beyond its tests: coverage, mutants, cost per token. The laws are elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.setup.console import SetupError, say
from deploy.setup.places import PYTHON, ROOT

WORK = ROOT / "var" / "mutants"
KILLED_AT_LEAST = 0.95
MUTATED = ("holdback", "stop_automaton", "detokenizer", "sse_parser", "end_state")
TESTS = ("holdback", "detokenizer", "sse_parser", "end_state")
COPIED = ("streaming/__init__.py", "streaming/protocol", "tests/__init__.py", "tests/protocol", "tests/cases", "docs")
#: The core's tests need no plugin but this one; those of Django, the browser and the judges take longer than the tests.
PLUGINS = ("-p", "_hypothesis_pytestplugin")
NO_OTHERS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
ON_ALL_CORES = ("-p", "xdist.plugin", "--numprocesses", "logical", "--dist", "worksteal")
#: A mutant that never ends was noticed as well.
NOTICED = frozenset({"killed", "timeout", "segfault"})
_RESULT = re.compile(r"^\s*(?P<mutant>streaming\.protocol\.(?P<module>\w+)\.\S+): (?P<verdict>.+)$", re.MULTILINE)


def test(args: Sequence[str]) -> int:
    """tests/protocol without Django; fails if they leave a branch out. HYPOTHESIS_PROFILE=thorough: its laws alone."""
    if os.environ.get("HYPOTHESIS_PROFILE") == "thorough":
        return _python("pytest", *PLUGINS, *ON_ALL_CORES, "tests/protocol", "-m", "hypothesis", *args)
    tested = _python("coverage", "run", "-m", "pytest", *PLUGINS, "tests/protocol", *args)
    return tested or _python("coverage", "report")


def bench(args: Sequence[str]) -> int:
    return _python("bench.core", *args)


def mutants(args: Sequence[str]) -> int:
    """Change the code in one place at a time, in a copy, and see whether its tests notice. Takes some ten minutes."""
    _copy()
    workers = args or ("--max-children", "2")
    _mutmut("run", *workers)
    results = [match.groupdict() for match in _RESULT.finditer(_mutmut("results", "--all", "true", quiet=True))]
    if not results or any(result["verdict"] == "not checked" for result in results):
        raise SetupError("the mutants were not tried; see what mutmut wrote above")
    for result in results:
        if result["verdict"] not in NOTICED:
            say(f"\n{result['mutant']}: {result['verdict']}\n{_mutmut('show', result['mutant'], quiet=True)}")
    return int(not _enough(results))


def _enough(results: Sequence[Mapping[str, str]]) -> bool:
    """Say how many were noticed in each module; whether that is enough in all of them."""
    made = Counter(result["module"] for result in results)
    noticed = Counter(result["module"] for result in results if result["verdict"] in NOTICED)
    for module in MUTATED:
        say(f"    {module:<16} {noticed[module]:4} of {made[module]:4} mutants noticed")
    return all(noticed[module] >= KILLED_AT_LEAST * made[module] > 0 for module in MUTATED)


def _copy() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for name in COPIED:
        source, target = ROOT / name, WORK / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(
                source, target, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis", ".pytest_cache")
            )
        else:
            shutil.copy(source, target)
    settings = {
        "source_paths": [f"streaming/protocol/{module}.py" for module in MUTATED],
        "pytest_add_cli_args": PLUGINS,
        "pytest_add_cli_args_test_selection": [f"tests/protocol/test_{name}.py" for name in TESTS],
        "also_copy": ["streaming", "tests", "docs"],
    }
    lines = [f"{name}=\n" + "".join(f"    {value}\n" for value in values) for name, values in settings.items()]
    (WORK / "setup.cfg").write_text("[mutmut]\n" + "".join(lines))


def _mutmut(*args: str, quiet: bool = False) -> str:
    argv = [str(PYTHON), "-W", "ignore", "-m", "mutmut", *args]
    stdout = subprocess.PIPE if quiet else None
    done = subprocess.run(argv, cwd=WORK, env=os.environ | NO_OTHERS, text=True, stdout=stdout, check=False)
    return done.stdout or ""


def _python(module: str, *args: str) -> int:
    Path(ROOT, "var").mkdir(exist_ok=True)
    sys.stdout.flush()
    argv = [str(PYTHON), "-m", module, *args]
    return abs(subprocess.run(argv, cwd=ROOT, env=os.environ | NO_OTHERS, check=False).returncode)
