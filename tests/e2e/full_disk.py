"""Owns disks that can be full at will: a small file system of its own, or a limit on one process's files."""

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.site import Site

SIZE = "12m"
BLOCK = 64 * 1024


def can_mount() -> bool:
    """Whether this machine lets us make a file system: in a container often not."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with mounted(Path(folder)):
                return True
        except subprocess.CalledProcessError:
            return False


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A file system in memory with little room."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)


@contextmanager
def no_room(folder: Path) -> Iterator[None]:
    """Not a byte is left on the file system of this folder."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (BLOCK, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def no_growth(site: Site) -> Iterator[None]:
    """The kernel refuses the web process every write behind the first page of any file."""
    assert site.web
    pid = site.web.popen.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
