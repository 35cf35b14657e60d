"""Owns the servers that are compared in one run and how each is started in front of the same engine."""

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bench.engine import SLOTS, EngineHandle
from bench.load import Address
from bench.processes import LOOPBACK, finished, running
from bench.tokenizer import tokenizer_path
from bench.wires import LlamaWire, OpenAIWire, Wire

OURS, BARE, NGINX, DIRECT = "ours", "bare", "nginx", "direct"
MODEL = "bench"


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


@contextlib.asynccontextmanager
async def ours(engine: EngineHandle, directory: Path) -> AsyncIterator[Side]:
    data_dir = directory / "data"
    data_dir.mkdir()
    env = {
        **os.environ,
        "DATA_DIR": str(data_dir),
        "VALKEY_URL": "",
        "DJANGO_SETTINGS_MODULE": "chatsite.settings",
    }
    manage = [sys.executable, "manage.py"]
    await finished([*manage, "migrate", "--verbosity", "0"], env=env)
    tokenizer = tokenizer_path(directory)
    registration = ["--kind", "llamacpp", "--url", engine.url, "--model", MODEL, "--tokenizer", str(tokenizer)]
    await finished([*manage, "add_engine", *registration, "--slots", str(SLOTS)], env=env)
    key = (await finished([*manage, "create_api_key", "bench"], env=env)).strip()
    log = directory / "ours.log"
    async with running([*manage, "serve", "--port", "0"], log=log, env=env) as server:
        wire = OpenAIWire(MODEL, {"Authorization": f"Bearer {key}"})
        yield Side(OURS, server.address, wire, server.pid, data_dir / "db.sqlite3", log)


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


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
