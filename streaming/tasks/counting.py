"""Owns that every run of a task is counted, by Celery's signals. What is counted, and where, is metrics'."""

import time
from typing import Any

from billiard.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery.signals import task_failure, task_postrun, task_prerun

from streaming.metrics import task_counts

ENDS = {"SUCCESS": "succeeded", "FAILURE": "failed", "RETRY": "retried"}
#: The pool's process is gone and says nothing itself: the worker does.
KILLED = (Terminated, TimeLimitExceeded, WorkerLostError)

_began_s: dict[str, float] = {}


@task_prerun.connect
def begins(task_id: str, **_: Any) -> None:
    """Note when."""
    _began_s[task_id] = time.monotonic()


@task_postrun.connect
def is_over(task_id: str, task: Any, state: str | None = None, **_: Any) -> None:
    """Count how it ended."""
    took_s = time.monotonic() - _began_s.pop(task_id, time.monotonic())
    task_counts.ran(_name(task), ENDS.get(state or "", "failed"), took_s)


@task_failure.connect
def is_killed(sender: Any = None, exception: BaseException | None = None, **_: Any) -> None:
    """Of a run that failed by itself its own process tells."""
    if isinstance(exception, KILLED):
        task_counts.ran(_name(sender), "killed", 0.0)


def _name(task: Any) -> str:
    return str(task.name).removeprefix("streaming.")
