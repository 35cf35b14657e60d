"""Owns the processes of a drill: PostgreSQL or SQLite, web processes, engines; what is done to them; their end."""

import asyncio
import itertools
import json
import re
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
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
#: How a record begins in a process's log.
RECORD = re.compile(r"\d{4}-\d\d-\d\d ")
#: Everything that a death waits for, in seconds instead of tens of seconds.
QUICK = {
    "BEAT_S": "0.4", "DEAD_S": "2", "SWEEP_S": "0.5", "DRAIN_S": "1", "HEARTBEAT_S": "1", "STUCK_READER_S": "3",
    "STOP_PROOF_S": "2",
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
    with sites_on_postgres(folder, model_dir, ("one", "two"), QUICK if quick else {}) as sites:
        yield _started(sites, quick)


@contextmanager
def sites_on_postgres(
    folder: Path, model_dir: Path, names: Sequence[str], env: Mapping[str, str]
) -> Iterator[list[Site]]:
    """Web processes on one PostgreSQL, not started yet; ended with it."""
    database = server()
    sites: list[Site] = []
    try:
        sites += [ClusterSite(folder / name, model_dir, database.get_uri(), env) for name in names]
        yield sites
    finally:
        _end(sites)
        database.cleanup()


@contextmanager
def one_on_sqlite(folder: Path, model_dir: Path, *, quick: bool) -> Iterator[Cluster]:
    """One web process on one SQLite file."""
    (folder / "only").mkdir()
    sites = [Site(folder / "only", model_dir, DATABASE_URL="", **(QUICK if quick else {}))]
    try:
        yield _started(sites, quick)
    finally:
        _end(sites)


def _started(sites: list[Site], quick: bool) -> Cluster:
    for site in sites:
        if not quick:
            del site.env["DRAIN_S"], site.env["STOP_PROOF_S"]
    key = _prepare(sites[0])
    for site in sites:
        site.start()
    return Cluster(sites, key)


def _prepare(first: Site) -> str:
    """The database, its engines and the llama.cpp worker; returns an API key."""
    first.migrate()
    load_models(first)
    first.start_engine()
    return first.manage("create_api_key", "dev")


def load_models(first: Site, scripts: Mapping[str, Any] = SCRIPTS, texts: Collection[str] = (TEXT_MODEL,)) -> None:
    """Register the scripts as models, all at once; the outputs of some are text, each one token."""
    register(first, [_engine(model, scripts[model], "text" if model in texts else "ids") for model in scripts])


def register(site: Site, engines: Sequence[Mapping[str, Any]]) -> None:
    """Put rows of engines into the database, all by one command."""
    made_at = {"created_at": "2020-01-01T00:00:00Z"}
    rows = [{"model": "streaming.engine", "fields": {**made_at, **engine}} for engine in engines]
    fixture = site.data_dir / "engines.json"
    fixture.write_text(json.dumps(rows))
    site.manage("loaddata", "-v", "0", str(fixture))


def _engine(model: str, script: Any, mode: str) -> dict[str, Any]:
    options = {"script": script, "mode": mode}
    kind = {"kind": "scripted", "slots": 200, "context_tokens": 1_000_000}
    return {"name": model, "model": model, "options": options, **kind}


def _end(sites: Sequence[Site]) -> None:
    for site in sites:
        for process in (site.web, site.engine):
            if process is not None:
                end_child(process)


def end_child(process: Child) -> None:
    """End it by SIGTERM, also one that is paused; by SIGKILL where that takes too long."""
    if process.popen.poll() is not None:
        return
    process.popen.send_signal(signal.SIGCONT)
    try:
        process.end(timeout_s=END_S)
    except subprocess.TimeoutExpired:
        process.end(signal.SIGKILL)


def complaints(log: Path) -> list[str]:
    """Lines that say a fault of ours, each with the last line of its trace, which names the exception."""
    found: list[str] = []
    lines = log.read_text(errors="replace").splitlines()
    for nth, line in enumerate(lines):
        if " ERROR " in line or " CRITICAL " in line:
            more = itertools.takewhile(lambda text: not RECORD.match(text), lines[nth + 1 :])
            found.append(" | ".join([line, *list(more)[-1:]]))
    return found


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
