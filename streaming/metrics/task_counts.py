"""Owns what is counted of tasks, kept in the cache that workers share with web processes. Runs no task, shows nothing.

Nobody asks a worker: its processes come and go. Web processes read the counts and say them with their own. A Valkey
that was started again counts anew, as a process would.
"""

import logging
from collections.abc import Mapping

from django.core.cache import cache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

#: All there are: a name that nobody knows is not counted.
TASKS = (
    "deliver_webhooks", "end_orphans", "erase_unstored", "expire", "find_untitled", "forget_webhooks", "make_title",
    "reconcile", "remove_files", "roll_up_usage", "roll_up_usage_again", "work_batches",
)  # fmt: skip
RUN_ENDS = ("succeeded", "failed", "killed", "retried")
DELIVERY_ENDS = ("taken", "failed", "given_up")
#: What the cache raises while Valkey is away, or has lost a count in the middle.
AWAY = (RedisError, OSError, ValueError)

Labels = tuple[str, ...]


def ran(task: str, ended: str, seconds: float) -> None:
    """A task ran so long and ended so; ``task`` without the name of the application."""
    if task in TASKS:
        _add(_run_key(task, ended), 1)
        _add(_ms_key(task), round(seconds * 1000))


def delivered(ended: str) -> None:
    """A webhook was sent."""
    _add(_delivery_key(ended), 1)


def runs() -> Mapping[Labels, int]:
    """By task and how it ended. Raises nothing: what the cache does not tell is not there."""
    return _read({_run_key(task, ended): (task, ended) for task in TASKS for ended in RUN_ENDS})


def milliseconds() -> Mapping[Labels, int]:
    """That tasks took, by task."""
    return _read({_ms_key(task): (task,) for task in TASKS})


def deliveries() -> Mapping[Labels, int]:
    """Of webhooks, by how they ended."""
    return _read({_delivery_key(ended): (ended,) for ended in DELIVERY_ENDS})


def _add(key: str, count: int) -> None:
    """A figure that is lost is no reason for a task to fail."""
    try:
        cache.add(key, 0, timeout=None)
        cache.incr(key, count)
    except AWAY as error:
        logger.info("%s is not counted: %s", key, error)


def _read(names: Mapping[str, Labels]) -> Mapping[Labels, int]:
    try:
        found = cache.get_many(names)
    except AWAY as error:
        logger.info("tasks' counts cannot be read: %s", error)
        return {}
    return {names[key]: count for key, count in found.items()}


def _run_key(task: str, ended: str) -> str:
    return f"count:run:{task}:{ended}"


def _ms_key(task: str) -> str:
    return f"count:ms:{task}"


def _delivery_key(ended: str) -> str:
    return f"count:delivery:{ended}"
