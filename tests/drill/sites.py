"""Owns the processes of a drill: PostgreSQL or SQLite, web processes, engines; what is done to them; their end."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.child import Child
from tests.cluster.postgres import ClusterSite
from tests.databases import server
from tests.drill.plan import SCRIPTS, TEXT_MODEL, Fault
from tests.e2e.site import Site

END_S = 40
#: Everything that a death waits for, in seconds instead of tens of seconds.
QUICK = {
    "BEAT_S": "0.4", "DEAD_S": "2", "SWEEP_S": "0.5", "DRAIN_S": "1", "HEARTBEAT_S": "1", "STUCK_READER_S": "3",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cluster:
    """Sites that are up, with an API key that all take."""

    sites: list[Site]
    key: str


def process_of(site: Site) -> Child:
    """The site's web process, of now or of last."""
    assert site.web
    return site.web


@contextmanager
def pair_on_postgres(folder: Path, model_dir: Path, *, quick: bool) -> Iterator[Cluster]:
    """Two web processes on one PostgreSQL."""
    database = server()
    try:
        uri = database.get_uri()
        sites = [ClusterSite(folder / name, model_dir, uri, QUICK if quick else {}) for name in ("one", "two")]
        with _running(list(sites), quick) as running:
            yield running
    finally:
        database.cleanup()


@contextmanager
def one_on_sqlite(folder: Path, model_dir: Path, *, quick: bool) -> Iterator[Cluster]:
    """One web process on one SQLite file."""
    (folder / "only").mkdir()
    with _running([Site(folder / "only", model_dir, DATABASE_URL="", **(QUICK if quick else {}))], quick) as running:
        yield running


@contextmanager
def _running(sites: list[Site], quick: bool) -> Iterator[Cluster]:
    try:
        for site in sites:
            if not quick:
                del site.env["DRAIN_S"]
        key = _prepare(sites[0])
        for site in sites:
            site.start()
        yield Cluster(sites, key)
    finally:
        for site in sites:
            _end_all(site)


def _prepare(first: Site) -> str:
    """The database, its engines and the llama.cpp worker; returns an API key."""
    first.manage("migrate", "-v", "0")
    load_models(first)
    first.start_engine()
    return first.manage("create_api_key", "dev")


def load_models(first: Site, scripts: Mapping[str, Any] = SCRIPTS, texts: Collection[str] = (TEXT_MODEL,)) -> None:
    """Register the scripts as models, all at once; the outputs of some are text, each one token."""
    fields = [_engine(model, scripts[model], "text" if model in texts else "ids") for model in scripts]
    rows = [{"model": "streaming.engine", "fields": one} for one in fields]
    fixture = first.data_dir / "engines.json"
    fixture.write_text(json.dumps(rows))
    first.manage("loaddata", "-v", "0", str(fixture))


def _engine(model: str, script: Any, mode: str) -> dict[str, Any]:
    options = {"script": script, "mode": mode}
    kind = {"kind": "scripted", "slots": 200, "context_tokens": 1_000_000, "created_at": "2020-01-01T00:00:00Z"}
    return {"name": model, "model": model, "options": options, **kind}


def _end_all(site: Site) -> None:
    for process in (site.web, site.engine):
        if process is None or process.popen.poll() is not None:
            continue
        process.popen.send_signal(signal.SIGCONT)
        try:
            process.end(timeout_s=END_S)
        except subprocess.TimeoutExpired:
            process.end(signal.SIGKILL)


async def inflict(site: Site, fault: Fault) -> None:
    """Do it to the site's web process; returns when it serves again."""
    if fault.kind == "pause":
        process_of(site).popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(fault.for_s)
        process_of(site).popen.send_signal(signal.SIGCONT)
        return
    signum = signal.SIGKILL if fault.kind == "kill" else signal.SIGTERM
    await asyncio.to_thread(process_of(site).end, signum, END_S)
    await asyncio.sleep(fault.for_s)
    await asyncio.to_thread(site.start)
