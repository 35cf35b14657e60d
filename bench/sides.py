"""Owns the servers that are compared in one run and how each is started in front of the same engine."""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.engine import CONTEXT, SLOTS, EngineHandle
from bench.processes import LOOPBACK, finished, running
from bench.tokenizer import tokenizer_path
from bench.wires import Address, LlamaWire, OpenAIWire, Wire
from chatsite.free_ports import free_port

OURS, BARE, NGINX, DIRECT = "ours", "bare", "nginx", "direct"
MODEL = "bench"
# Answers of the scripted engine, which lives in the site: a mebibyte in as many tokens as an answer may have.
LONG_MODEL, LONG_TOKENS, WORDS_PER_TOKEN = "long", 8192, 32
LONG_WORDS = LONG_TOKENS * WORDS_PER_TOKEN
LONG_ANSWER = {
    "mode": "text",
    "script": {"outputs": [{"text": " the" * WORDS_PER_TOKEN}], "repeat": 0, "delay_s": 0.001},
}
MANAGE = [sys.executable, "manage.py"]
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Side:
    name: str
    address: Address
    wire: Wire
    pid: int | None = None  # None: there is no server of its own to account
    database: Path | None = None
    log: Path | None = None


def direct(engine: EngineHandle) -> Side:
    """The driver on the engine itself: its latency is the floor that the others are measured from."""
    return Side(DIRECT, engine.address, LlamaWire())


@dataclass(frozen=True, slots=True)
class Site:
    """Our site before any server of it runs: its data, a key, two models (the engine's, and one of long answers)."""

    data_dir: Path
    key: str

    @property
    def env(self) -> dict[str, str]:
        own = {"DATA_DIR": str(self.data_dir), "VALKEY_URL": "", "DJANGO_SETTINGS_MODULE": "chatsite.settings"}
        return {**os.environ, **own}

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


async def prepare(engine: EngineHandle, directory: Path) -> Site:
    data_dir = directory / "data"
    data_dir.mkdir()
    env = Site(data_dir, "").env
    tokenizer = ["--tokenizer", str(tokenizer_path(directory))]
    await finished([*MANAGE, "migrate", "--verbosity", "0"], env=env)
    worker = ["--kind", "llamacpp", "--url", engine.url, "--model", MODEL, "--slots", str(SLOTS)]
    await finished([*MANAGE, "add_engine", *worker, *tokenizer, "--context", str(CONTEXT)], env=env)
    player = ["--kind", "scripted", "--model", LONG_MODEL, "--options", json.dumps(LONG_ANSWER)]
    await finished([*MANAGE, "add_engine", *player, *tokenizer, "--context", str(CONTEXT)], env=env)
    key = await finished([*MANAGE, "create_api_key", "bench"], env=env)
    return Site(data_dir, key.strip())


@contextlib.asynccontextmanager
async def ours(site: Site, directory: Path, settings: Mapping[str, str] = NO_SETTINGS) -> AsyncIterator[Side]:
    log = directory / "ours.log"
    env = {**site.env, "MAX_STREAMS_PER_USER": str(SLOTS), **settings}
    async with running([*MANAGE, "serve", "--port", "0"], log=log, env=env) as server:
        wire = OpenAIWire(MODEL, site.headers)
        yield Side(OURS, server.address, wire, server.pid, site.data_dir / "db.sqlite3", log)


@contextlib.asynccontextmanager
async def bare(engine: EngineHandle, directory: Path) -> AsyncIterator[Side]:
    env = {**os.environ, "BENCH_ENGINE_URL": engine.url}
    command = [sys.executable, "-m", "daphne", "-b", LOOPBACK, "-p", "0", "--access-log", os.devnull]
    log = directory / "bare.log"
    async with running([*command, "bench.bare_relay:application"], log=log, env=env) as server:
        yield Side(BARE, server.address, OpenAIWire(MODEL), server.pid, log=log)


NGINX_CONFIGURATION = """
daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/nginx.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass {engine}; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 300s; }}
  }}
}}
"""


@contextlib.asynccontextmanager
async def nginx(engine: EngineHandle, directory: Path) -> AsyncIterator[Side | None]:
    """nginx passing the engine's own bytes through; None on a machine without it."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        yield None
        return
    address = Address(LOOPBACK, free_port())
    configuration = directory / "nginx.conf"
    configuration.write_text(
        NGINX_CONFIGURATION.format(directory=directory, port=address.port, engine=engine.url), encoding="utf-8"
    )
    command = [program, "-c", str(configuration), "-e", str(directory / "nginx.log")]
    async with running(command, log=directory / "nginx.out", env=os.environ, address=address) as server:
        yield Side(NGINX, server.address, LlamaWire(), server.pid)
