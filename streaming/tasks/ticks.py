"""Owns that a periodic task does its work once a period, however many beats send it. Knows no task."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import current_task, shared_task
from django.core.cache import cache

#: Of a period: a tick that comes sooner after the last is another beat's.
LEAST_SHARE = 0.8
#: By how much clocks of workers may differ, and Valkey's clock be set back, without a run more or less.
CLOCKS_DIFFER_S = 60.0


def tick(name: str, every_s: float) -> Callable[[Callable[..., int]], Any]:
    """A task of this name which runs once in a period, however many messages there are.

    One that was killed half-way and comes again, the same message, may run again. No message expires: whether it has
    is judged by the worker's clock out of beat's, and a worker that is ahead would run nothing.
    """

    def decorate(work: Callable[..., int]) -> Any:
        @shared_task(name=name)
        @wraps(work)
        def in_turn(*args: Any, **kwargs: Any) -> int:
            return work(*args, **kwargs) if _is_first(name, every_s) else 0

        return in_turn

    return decorate


def _is_first(name: str, every_s: float) -> bool:
    message_id = current_task.request.id if current_task else None
    if message_id is None:  # called, not sent
        return True
    key, mine, lasts_s = f"ran:{name}", (message_id, time.time()), every_s * LEAST_SHARE
    if cache.add(key, mine, lasts_s):
        return True
    holder_id, held_since = cache.get(key) or (None, mine[1])
    if abs(mine[1] - held_since) > every_s + CLOCKS_DIFFER_S:
        # Valkey's clock was set back: the key would stay for as long as that was.
        cache.set(key, mine, lasts_s)
        return True
    return bool(holder_id == message_id)
