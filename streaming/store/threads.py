"""Owns the few threads on which relays, readers and sweeps reach the database. Requests have threads of their own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")

STORE_THREADS = 4
_threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="store")


async def run(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a store function on a store thread; at most STORE_THREADS connections exist for all of them."""
    return await asyncio.get_running_loop().run_in_executor(_threads, lambda: _fresh(function, *args, **kwargs))


def _fresh(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    drop_broken_connection()
    return function(*args, **kwargs)


def close_connection() -> None:
    """Close this thread's connection."""
    connection.close()


def drop_broken_connection() -> None:
    """Close this thread's connection if an earlier error left it unusable; the next query opens a new one."""
    if connection.connection is not None and connection.errors_occurred and not connection.is_usable():
        connection.close()
