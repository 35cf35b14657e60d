"""Owns reading a Chromium trace: the tasks of the page's main thread and the marks of the page. Judges nothing."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

CATEGORIES = ["toplevel", "blink.user_timing", "__metadata"]
TASK = "ThreadControllerImpl::RunTask"
MAIN_THREAD = "CrRendererMain"
US_PER_MS = 1000.0

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the main thread. ``busy_ms`` is CPU time: what other programs took of the core is not in it."""

    at_ms: float
    wall_ms: float
    busy_ms: float


@dataclass(frozen=True, slots=True)
class Recording:
    """A main thread's tasks in order, and when the page's marks were set, by name."""

    tasks: Sequence[Task]
    marks: dict[str, float]

    def between(self, start_ms: float, end_ms: float) -> Iterator[Task]:
        """The tasks that began in a stretch of time."""
        return (task for task in self.tasks if start_ms <= task.at_ms < end_ms)

    def busy_ms(self, start_ms: float, end_ms: float) -> float:
        """CPU time of a stretch of time."""
        return sum(task.busy_ms for task in self.between(start_ms, end_ms))


def read(trace: bytes, mark_prefix: str) -> Recording:
    """The recording of the process that set marks of this prefix."""
    events: list[Event] = json.loads(trace)["traceEvents"]
    marks = {event["name"]: event for event in events if event["name"].startswith(mark_prefix)}
    pid = next(iter(marks.values()))["pid"]
    tid = _main_thread(events, pid)
    tasks = [_task(event) for event in events if _is_task(event) and (event["pid"], event["tid"]) == (pid, tid)]
    tasks.sort(key=lambda task: task.at_ms)
    return Recording(_outermost(tasks), {name: event["ts"] / US_PER_MS for name, event in marks.items()})


def _main_thread(events: Sequence[Event], pid: int) -> int:
    for event in events:
        is_name = event["name"] == "thread_name" and event["pid"] == pid
        if is_name and event["args"]["name"] == MAIN_THREAD:
            return int(event["tid"])
    raise LookupError(f"no thread {MAIN_THREAD} in process {pid}")


def _is_task(event: Event) -> bool:
    return (event["name"], event["ph"]) == (TASK, "X")


def _task(event: Event) -> Task:
    wall_us: float = event.get("dur", 0)
    busy_us: float = event.get("tdur", wall_us)
    return Task(event["ts"] / US_PER_MS, wall_us / US_PER_MS, busy_us / US_PER_MS)


def _outermost(tasks: Sequence[Task]) -> list[Task]:
    """Without those that ran inside another one: their time is in its."""
    found: list[Task] = []
    for task in tasks:
        if not found or task.at_ms >= found[-1].at_ms + found[-1].wall_ms:
            found.append(task)
    return found
