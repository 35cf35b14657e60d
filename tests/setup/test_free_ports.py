"""Owns that a port that was found free is still free when the server that was told it starts. Takes a second."""

import socket
import subprocess
import sys

import pytest

from chatsite import free_ports
from deploy.setup.places import ROOT

#: Finds some of the ports that it is given, and keeps them until it may end. By itself it looks where no other process
#: of a run does: what it gives back must be found here alone.
PROCESS = """
import sys
from chatsite import free_ports
free_ports.never_handed_out = lambda: [int(port) for port in sys.argv[2:]] or list(range(10_000, 11_000))
print(*free_ports.free_ports(int(sys.argv[1])), flush=True)
input()
"""


class Other:
    """Another process that finds ports."""

    def __init__(self, count, among=()):
        argv = [sys.executable, "-c", PROCESS, str(count), *map(str, among)]
        self.process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def found(self):
        return [int(port) for port in self.process.stdout.readline().split()]

    def end(self):
        self.process.communicate("\n")


@pytest.fixture
def candidates(monkeypatch):
    """Sets among which ports they are found here."""
    return lambda ports: monkeypatch.setattr(free_ports, "never_handed_out", lambda: ports)


def test_no_port_that_is_found_is_one_that_the_kernel_hands_out():
    found = set(free_ports.free_ports(50))
    assert len(found) == 50
    first, last = map(int, free_ports.KERNELS.read_text().split())
    assert not found & set(range(first, last + 1))
    # What it does hand out, to who listens and to who connects, lies in its range.
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        for taken in (server, client):
            assert first <= taken.getsockname()[1] <= last


@pytest.mark.parametrize(
    ("said", "lowest", "highest", "count"),
    [
        ("32768\t60999\n", 11_000, 65_535, 65_536 - 11_000 - 28_232),
        ("15000 65535", 11_000, 14_999, 4_000),
        ("1024 20000", 20_001, 65_535, 45_535),
        (None, 11_000, 65_535, 65_536 - 11_000 - 28_232),
        ("1024 65535", 11_000, 65_535, 65_536 - 11_000),
    ],
)
def test_ports_lie_beside_the_kernels_range_wherever_that_is(tmp_path, monkeypatch, said, lowest, highest, count):
    monkeypatch.setattr(free_ports, "KERNELS", tmp_path / "range")
    if said is not None:
        (tmp_path / "range").write_text(said)
    found = free_ports.never_handed_out()
    assert (found[0], found[-1], len(found)) == (lowest, highest, count)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_where_somebody_listens_is_not_free(candidates, family, host):
    with socket.create_server((host, 0), family=family) as server:
        candidates([server.getsockname()[1]])
        with pytest.raises(OSError, match="no port from 11000 to 65535 is free"):
            free_ports.free_port()


def test_no_two_processes_find_the_same_port_and_what_the_dead_had_is_free_again(candidates):
    first = Other(10)
    ten = first.found()
    first.end()
    others = [Other(2, ten) for _ in range(4)]
    found = [other.found() for other in others]
    candidates(ten)
    mine = free_ports.free_ports(2)
    assert sorted([*mine, *(port for two in found for port in two)]) == sorted(ten)
    with pytest.raises(OSError, match="is free"):
        free_ports.free_port()
    others.pop().end()
    assert sorted(free_ports.free_ports(2)) == sorted(found.pop())
    for other in others:
        other.end()
