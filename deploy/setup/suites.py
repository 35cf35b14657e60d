"""Owns `make test`, the benches and the drills: their set-up, and the commands in tests/ and bench/ they run."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from deploy.setup import frontend, locks, model, tokenizer
from deploy.setup.console import say
from deploy.setup.places import FRONTEND, PYTHON, ROOT, demo_model

#: Much of the suite waits for timers and processes. What somebody selects runs in one process, in its order.
SIDE_BY_SIDE = ("--numprocesses", "3")


def test(args: Sequence[str]) -> int:
    """The page's unit tests, then all of pytest: both run, the first failure's code counts. With `args` only pytest."""
    node_env = _set_up()
    env = node_env | {"MODEL_DIR": str(demo_model().folder.parent)}
    if args:
        return _pytest(args, env)
    say("==> Testing the page")
    page = _call(["npm", "test"], FRONTEND, node_env)
    say("==> Testing everything else")
    return _pytest(SIDE_BY_SIDE, env) or page


def bench(args: Sequence[str]) -> int:
    return _call([str(PYTHON), "-m", "bench", *args], ROOT, _set_up())


def bench_page(args: Sequence[str]) -> int:
    return _call([str(PYTHON), "-m", "bench.page", *args], ROOT, _set_up())


def drill(args: Sequence[str]) -> NoReturn:
    _become("tests.drill", args)


def drill_cluster(args: Sequence[str]) -> NoReturn:
    _become("tests.drill.cluster", args)


def drill_engines(args: Sequence[str]) -> NoReturn:
    _become("tests.drill.engines", args)


def _become(module: str, args: Sequence[str]) -> NoReturn:
    """In place of this process: a Ctrl-C must reach the drill alone, which has processes to end."""
    env = _set_up() | {"MODEL_DIR": str(demo_model().folder.parent)}
    os.execve(PYTHON, [str(PYTHON), "-m", module, *args], os.environ | env)


def demo_model_only(args: Sequence[str]) -> int:
    """The demo model with its tokenizer, and nothing else: deploy/Dockerfile needs no more."""
    model.ensure(demo_model())
    tokenizer.ensure(demo_model())
    return 0


def _set_up() -> dict[str, str]:
    with locks.waiting_lock(ROOT, "its own set-up"):
        model.ensure(demo_model())
        tokenizer.ensure(demo_model())
        return frontend.ensure()


def _pytest(args: Sequence[str], env: dict[str, str]) -> int:
    return _call([str(PYTHON), "-m", "pytest", *args], ROOT, env)


def _call(argv: Sequence[str], cwd: Path, env: dict[str, str]) -> int:
    return abs(subprocess.run(argv, cwd=cwd, env=os.environ | env, check=False).returncode)
