"""Owns `make check`: every static check, two at a time, all even after one failed, and a table of what they took."""

import os
import secrets
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from deploy.setup import frontend
from deploy.setup.console import say
from deploy.setup.places import FRONTEND, PYTHON, ROOT, data_dir

IMPORT_CONTRACTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
AT_A_TIME = 2


@dataclass(frozen=True)
class Check:
    name: str
    argv: list[str]
    cwd: Path = ROOT
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    code: int
    took_s: float
    #: What it printed, also as its complaint.
    output: str


def all_checks(node_env: dict[str, str]) -> list[Check]:
    python = str(PYTHON)
    production = {
        "ALLOWED_HOSTS": "chat.example.org",
        "DATA_DIR": str(data_dir()),
        "HTTPS_ONLY": "1",
        "SECRET_KEY": secrets.token_urlsafe(64),
    }
    return [  # the longest first
        Check("types", [python, "-m", "mypy"]),
        Check("page", ["npm", "run", "check"], cwd=FRONTEND, env=node_env),
        Check("style", [python, "-m", "ruff", "check", "."]),
        Check("format", [python, "-m", "ruff", "format", "--check", "."]),
        Check("layers", [python, "-c", IMPORT_CONTRACTS]),
        Check("migrations", [python, "manage.py", "makemigrations", "--check", "--dry-run"]),
        Check("deployment", [python, "manage.py", "check", "--deploy", "--fail-level", "WARNING"], env=production),
    ]


def check() -> int:
    checks = all_checks(frontend.ensure())
    results: list[Result] = []
    with ThreadPoolExecutor(AT_A_TIME) as running:
        for one, result in zip(checks, running.map(_run, checks), strict=True):
            say(f"\n==> {one.name}\n{result.output}")
            results.append(result)
    say("\n==> make check")
    for one, result in zip(checks, results, strict=True):
        say(f"    {one.name:<12} {result.took_s:6.1f} s  {'ok' if result.code == 0 else 'FAILED'}")
    return int(any(result.code for result in results))


def _run(one: Check) -> Result:
    started_s = time.monotonic()
    env = os.environ | one.env
    done = subprocess.run(
        one.argv, cwd=one.cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return Result(done.returncode, time.monotonic() - started_s, done.stdout)
