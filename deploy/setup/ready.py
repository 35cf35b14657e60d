"""Owns waiting until a question would be answered, and the line that says so. Starts and stops nothing."""

import http.client
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from deploy.setup.console import SetupError
from deploy.setup.places import PYTHON, ROOT

ASK_EVERY_S = 0.5
SAY_EVERY_S = 5.0
ANSWER_S = 30.0
READY_WITHIN_S = 300.0

# A proxy named in the environment is for the world outside, never for our own loopback.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Site:
    """The addresses that tell how far the start is."""

    engine_urls: tuple[str, ...]
    web_url: str

    def lacking(self) -> str:
        """Nothing, or in words what the site still waits for. Asking web is a real generation, so it comes last."""
        if any(_refusal(f"{url}/health") is not None for url in self.engine_urls):
            return "the engine to load the model"
        refusal = _refusal(f"{self.web_url}/readyz")
        return "" if refusal is None else f"the web process ({refusal})"


def wait_until_ready(site: Site, say: Callable[[str], None]) -> None:
    """Return once `/readyz` says 200: a real, bounded generation worked. Say what is lacking until then."""
    give_up_s = time.monotonic() + READY_WITHIN_S
    said_s = -SAY_EVERY_S
    while lacking := site.lacking():
        now_s = time.monotonic()
        if now_s > give_up_s:
            raise SetupError(f"not ready after {READY_WITHIN_S:.0f} s: {lacking}")
        if now_s - said_s >= SAY_EVERY_S:
            say(f"Waiting for {lacking}")
            said_s = now_s
        time.sleep(ASK_EVERY_S)


def _refusal(url: str) -> str | None:
    """None for a 200, else why not."""
    try:
        with _opener.open(url, timeout=ANSWER_S):
            return None
    except urllib.error.HTTPError as refusal:
        return _reason(refusal)
    except (OSError, http.client.HTTPException):
        return "it does not listen yet"


def _reason(refusal: urllib.error.HTTPError) -> str:
    """The reason that the body gives, else the status."""
    try:
        return str(json.loads(refusal.read(65_536))["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"status {refusal.code}"


def login_path(env: dict[str, str]) -> str:
    """A fresh one-time link for the first user."""
    argv = [str(PYTHON), "manage.py", "login_link", "admin", "--create-superuser"]
    done = subprocess.run(argv, cwd=ROOT, env=os.environ | env, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SetupError(f"no login link could be made: {lines[-1]}")
    return done.stdout.strip()
