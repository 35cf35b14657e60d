"""Owns `make check`: every static check, all of them run even after one failed, and a table of what they took."""

import os
import secrets
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from deploy.setup import frontend
from deploy.setup.console import say
from deploy.setup.places import FRONTEND, PYTHON, ROOT, data_dir

IMPORT_CONTRACTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


@dataclass(frozen=True)
class Check:
    name: str
    argv: list[str]
    cwd: Path = ROOT
    env: dict[str, str] = field(default_factory=dict)


def all_checks(node_env: dict[str, str]) -> list[Check]:
    python = str(PYTHON)
    production = {
        "ALLOWED_HOSTS": "chat.example.org",
        "DATA_DIR": str(data_dir()),
        "HTTPS_ONLY": "1",
        "SECRET_KEY": secrets.token_urlsafe(64),
    }
    return [
        Check("style", [python, "-m", "ruff", "check", "."]),
        Check("format", [python, "-m", "ruff", "format", "--check", "."]),
        Check("types", [python, "-m", "mypy"]),
        Check("layers", [python, "-c", IMPORT_CONTRACTS]),
        Check("migrations", [python, "manage.py", "makemigrations", "--check", "--dry-run"]),
        Check("deployment", [python, "manage.py", "check", "--deploy", "--fail-level", "WARNING"], env=production),
        Check("page", ["npm", "run", "check"], cwd=FRONTEND, env=node_env),
    ]


def check() -> int:
    results = [(one.name, *_timed(one)) for one in all_checks(frontend.ensure())]
    say("\n==> make check")
    for name, code, took_s in results:
        say(f"    {name:<12} {took_s:6.1f} s  {'ok' if code == 0 else 'FAILED'}")
    return int(any(code for _, code, _ in results))


def _timed(one: Check) -> tuple[int, float]:
    say(f"\n==> {one.name}")
    started_s = time.monotonic()
    code = subprocess.run(one.argv, cwd=one.cwd, env=os.environ | one.env, check=False).returncode
    return code, time.monotonic() - started_s
