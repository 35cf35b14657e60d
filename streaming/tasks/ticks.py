"""Owns that a periodic task does its work once a period, however many beats send it. Knows no task."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import current_task, shared_task
from django.core.cache import cache

#: Of a period: a tick that comes sooner after the last is another beat's.
LEAST_SHARE = 0.8


def tick(name: str, every_s: float) -> Callable[[Callable[..., int]], Any]:
    """A task of this name whose message is worth something for one period, and which runs once in it.

    One that was killed half-way and comes again, the same message, may run again.
    """

    def decorate(work: Callable[..., int]) -> Any:
        @shared_task(name=name, expires=every_s)
        @wraps(work)
        def in_turn(*args: Any, **kwargs: Any) -> int:
            return work(*args, **kwargs) if _is_first(name, every_s) else 0

        return in_turn

    return decorate


def _is_first(name: str, every_s: float) -> bool:
    message_id = current_task.request.id if current_task else None
    if message_id is None:  # called, not sent
        return True
    key = f"tick:{name}"
    return bool(cache.add(key, message_id, every_s * LEAST_SHARE)) or cache.get(key) == message_id
