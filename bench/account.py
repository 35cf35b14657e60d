"""Owns what a process and its children cost, read from /proc: CPU, memory, threads, database connections."""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") / 1024
# Fields of /proc/PID/stat, counted after the command name (proc(5) numbers them from 1 and these from 3).
PARENT, CPU_FIELDS, THREADS, RSS_PAGES = 1, slice(11, 15), 17, 21


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_s: float
    rss_kb: float
    threads: int
    database_connections: int


class Account:
    """One server: the process and the children it had when the account was opened."""

    def __init__(self, pid: int, database: Path | None = None) -> None:
        self._pids = family(pid)
        self._wal = f"{database.resolve()}-wal" if database else None

    def read(self) -> Cost:
        cpu_ticks, rss_pages, threads, connections = 0, 0, 0, 0
        for pid in self._pids:
            fields = stat_fields(pid)
            if fields:
                cpu_ticks += sum(map(int, fields[CPU_FIELDS]))
                rss_pages += int(fields[RSS_PAGES])
                threads += int(fields[THREADS])
                connections += self._connections(pid)
        return Cost(cpu_ticks / TICKS_PER_S, rss_pages * PAGE_KB, threads, connections)

    def rss_kb(self) -> float:
        return sum(int(fields[RSS_PAGES]) * PAGE_KB for fields in map(stat_fields, self._pids) if fields)

    def _connections(self, pid: int) -> int:
        """Open descriptors of SQLite's log: one per connection. Those of the database file itself outlive theirs."""
        return sum(target == self._wal for target in open_files(pid)) if self._wal else 0


def machine_busy_s() -> float:
    """CPU seconds that all cores were not idle for, whoever used them, the hypervisor's other guests included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def threads_cpu_s(pid: int) -> dict[int, tuple[float, float]]:
    """Seconds in our code and in the kernel, by thread id."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        if fields := stat_fields(f"{pid}/task/{task.name}"):
            user, system = (int(ticks) / TICKS_PER_S for ticks in fields[CPU_FIELDS][:2])
            found[int(task.name)] = (user, system)
    return found


def stat_fields(process: int | str) -> list[str]:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def open_files(pid: int) -> list[str]:
    targets = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(str(entry.readlink()))
        except OSError:
            continue
    return targets


def family(pid: int) -> list[int]:
    """The process and everything below it."""
    parents = {
        int(entry.name): stat_fields(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    }
    found = [pid]
    for parent in found:
        found.extend(child for child, fields in parents.items() if fields and int(fields[PARENT]) == parent)
    return found
