"""Owns the way in: `python -m deploy.setup COMMAND`, by any Python first, then by that of `.venv`."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from deploy.setup import locks, venv
from deploy.setup.console import SetupError, failures_in_one_line
from deploy.setup.places import PYTHON, ROOT, VENV

REQUIREMENTS = {
    "run": ("requirements.txt",),
    "model": ("requirements.txt",),
    "bench": ("requirements.txt", "requirements-dev.txt"),
    "bench-page": ("requirements.txt", "requirements-dev.txt"),
    "check": ("requirements.txt", "requirements-dev.txt"),
    "cluster": ("requirements.txt", "requirements-dev.txt"),
    "drill": ("requirements.txt", "requirements-dev.txt"),
    "drill-cluster": ("requirements.txt", "requirements-dev.txt"),
    "drill-engines": ("requirements.txt", "requirements-dev.txt"),
    "test": ("requirements.txt", "requirements-dev.txt"),
    "test-core": ("requirements.txt", "requirements-dev.txt"),
    "bench-core": ("requirements.txt", "requirements-dev.txt"),
    "mutants": ("requirements.txt", "requirements-dev.txt"),
}


def main(argv: Sequence[str]) -> int:
    command, args = argv[0], argv[1:]
    with failures_in_one_line(command):
        if command not in REQUIREMENTS:
            raise SetupError(f"there is only {', '.join(REQUIREMENTS)}")
        os.chdir(ROOT)
        if os.path.realpath(sys.prefix) != os.path.realpath(VENV):
            _continue_in_venv(command, argv)
        return _carry_out(command, args)


def _continue_in_venv(command: str, argv: Sequence[str]) -> NoReturn:
    """Everything but making the environment happens inside it; the process stays the same one for `make`."""
    venv.require_posix()
    if command in {"run", "cluster"}:
        from deploy.setup import ports  # which need more of the checkout than is there where an image is made

        ports.page_address()  # a port that is taken is said at once, not after an installation
    with locks.waiting_lock(ROOT, "its own set-up"):
        venv.ensure(REQUIREMENTS[command])
    os.execv(PYTHON, [str(PYTHON), "-m", "deploy.setup", *argv])


def _carry_out(command: str, args: Sequence[str]) -> int:
    if command == "run":
        from deploy.setup.run import run

        return run()
    if command == "cluster":
        from deploy.setup.cluster import cluster

        return cluster()
    if command == "check":
        from deploy.setup.checks import check

        return check()
    from deploy.setup import core, suites

    commands = {
        "model": suites.demo_model_only,
        "test": suites.test,
        "bench": suites.bench,
        "bench-page": suites.bench_page,
        "drill": suites.drill,
        "drill-cluster": suites.drill_cluster,
        "drill-engines": suites.drill_engines,
        "test-core": core.test,
        "bench-core": core.bench,
        "mutants": core.mutants,
    }
    return commands[command](args)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main(sys.argv[1:]))
