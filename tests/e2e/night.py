"""Owns a site with Valkey, a real Celery worker and its beat, for tests of what is worked at in the background."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import openai

from tests.child import Child
from tests.cluster.valkey import Valkey
from tests.e2e.site import Site


class Night:
    """The site, its worker and its beat."""

    def __init__(self, site: Site):
        self.site = site
        self.beat = self._celery("beat", "--schedule", str(site.data_dir / "beat"), "--pidfile=")
        self.start_worker()

    def _celery(self, *args: str) -> Child:
        command = [sys.executable, "-m", "celery", "-A", "chatsite", *args, "--loglevel", "INFO"]
        return Child(command, self.site.env, self.site.data_dir / "tasks.log")

    def kill_worker(self) -> None:
        """kill -9: the parent and its pool."""
        _kill(self.worker)

    def start_worker(self) -> None:
        self.worker = self._celery("worker", "--concurrency", "2")
        self.worker.line_with("ready.")

    def client(self, key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.site.url}/v1", api_key=key, max_retries=0)

    def rows(self, batch_id: str) -> list[tuple]:
        """Key, end state and end reason of every response of the batch."""
        asked = "SELECT idempotency_key, end_state, end_reason FROM streaming_response WHERE idempotency_key LIKE ?"
        return self.site.rows(asked, f"{batch_id}.%")

    def stop(self) -> None:
        for child in (self.beat, self.worker):
            _kill(child)


def _kill(child: Child) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.popen.pid, signal.SIGKILL)
    child.popen.wait(10)


@contextlib.contextmanager
def prepared(folder: Path, **env: str) -> Iterator[Site]:
    """A site with a scripted engine, not started yet, and Valkey beside it; both end with the block."""
    for name, mode in (("valkey", 0o700), ("site", 0o755)):
        (folder / name).mkdir(mode=mode)
    valkey = Valkey(folder / "valkey")
    valkey.start()
    site = Site(folder / "site", folder, VALKEY_URL=valkey.url, **env)
    try:
        site.migrate()
        site.scripted()
        yield site
    finally:
        site.stop()
        valkey.kill()


@contextlib.contextmanager
def working(site: Site) -> Iterator[Night]:
    """The site, started, with its worker and its beat, which end with the block."""
    site.start()
    site.env["SITE_URL"] = site.url
    night = Night(site)
    try:
        yield night
    finally:
        night.stop()
