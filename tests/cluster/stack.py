"""Owns the whole behind one address: nginx, three web processes, worker, beat, PostgreSQL, Valkey. Knows no test."""

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.child import Child
from tests.cluster.outage import Database
from tests.cluster.postgres import ClusterSite
from tests.cluster.valkey import Valkey
from tests.e2e import nginx as fronts
from tests.e2e.nginx import Proxy
from tests.e2e.site import QUICK

NAMES = ("one", "two", "three")
#: As the Procfile has them.
TASKS = {
    "worker": ["worker", "--concurrency", "2", "--loglevel", "WARNING"],
    "beat": ["beat", "--pidfile=", "--loglevel", "WARNING", "--schedule"],
}


@dataclass
class Tasks:
    """Celery's two processes; each can be killed and started again."""

    site: ClusterSite
    running: dict[str, Child]

    def start(self, name: str) -> None:
        arguments = [*TASKS[name], *([str(self.site.data_dir / "schedule")] if name == "beat" else [])]
        argv = [sys.executable, "-m", "celery", "-A", "chatsite", *arguments]
        self.running[name] = Child(argv, self.site.env, self.site.data_dir / f"{name}.log")

    def close(self) -> None:
        """End them."""
        for child in self.running.values():
            child.end(timeout_s=30)


@dataclass
class Stack:
    """What is up; ``api`` and ``key`` make it look like a site to who asks by nginx's address."""

    sites: list[ClusterSite]
    nginx: Proxy
    valkey: Valkey
    database: Database
    tasks: Tasks
    key: str = ""

    @property
    def url(self) -> str:
        return self.nginx.url

    def api(self, key: str, **options) -> httpx.Client:
        """A client of the REST API at nginx, whose certificate nobody signed."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=False, **options)


@contextmanager
def stack(
    folder: Path, model_dir: Path, times: Mapping[str, str] = QUICK, certificate=None, **settings: str
) -> Iterator[Stack]:
    """All of it, with an empty database; ended together."""
    for part in ("valkey", "nginx"):
        (folder / part).mkdir(mode=0o700)
    with ExitStack() as ending:
        database = ending.enter_context(closing(Database()))
        valkey = Valkey(folder / "valkey")
        ending.callback(valkey.kill)
        valkey.start()
        env = {**times, "VALKEY_URL": valkey.url, "WEB_PROCESSES": str(len(NAMES)), **settings}
        sites = [ClusterSite(folder / name, model_dir, database.url, env) for name in NAMES]
        sites[0].prepare()
        for site in sites:
            ending.callback(_end, site)
        key = sites[0].manage("create_api_key", "dev")
        tasks = ending.enter_context(closing(Tasks(sites[0], {})))
        for site in sites:
            site.key = key
        with ThreadPoolExecutor() as starting:
            list(starting.map(ClusterSite.start, sites))
        front = fronts.ours(folder / "nginx", [s.port for s in sites], sites[0].data_dir / "static", certificate)
        ending.enter_context(closing(front))
        yield Stack(sites, front, valkey, database, tasks, key)


def _end(site: ClusterSite) -> None:
    for process in (site.web, site.engine):
        if process is not None:
            process.end(timeout_s=40)
