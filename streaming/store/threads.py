"""Owns the few threads on which asynchronous code reaches the database. Django's own code has threads of its own.

Writers have theirs too: while somebody holds the database's write lock, readers go on reading.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connection

P = ParamSpec("P")
R = TypeVar("R")

READ_THREADS = 3
WRITE_THREADS = 2
#: As long as one statement waits for a locked database: those behind it have then waited as long as itself.
WRITE_PATIENCE_S = 10.0
_reading = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="store-read")
_writing = ThreadPoolExecutor(WRITE_THREADS, thread_name_prefix="store-write")


async def run(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a store function that reads; at most READ_THREADS connections exist for all of them."""
    call = repeatable(function)
    return await asyncio.get_running_loop().run_in_executor(_reading, lambda: call(*args, **kwargs))


async def write(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a store function that writes. Raises OperationalError when its turn did not come in WRITE_PATIENCE_S."""
    asked_at = time.monotonic()

    def in_turn() -> R:
        if time.monotonic() - asked_at > WRITE_PATIENCE_S:
            raise OperationalError("the database takes no writes")
        return _fresh(function, *args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_writing, in_turn)


def repeatable(function: Callable[P, R]) -> Callable[P, R]:
    """A store function that reads, or may be done twice, on any thread: called again where its connection is broken.

    Nobody notices that a connection breaks until it is used, which may be long after the database is back.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return _fresh(function, *args, **kwargs)
        except OperationalError:
            if not drop_broken_connection():
                raise
            return _fresh(function, *args, **kwargs)

    return call


def _fresh(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call it on a connection that works. A connection that is closed under it is a DatabaseError like all others."""
    drop_broken_connection()
    try:
        return function(*args, **kwargs)
    except InterfaceError as error:
        raise OperationalError(str(error)) from error


@contextmanager
def impatient() -> Iterator[None]:
    """For a write that is not worth waiting for: on SQLite it fails at once while somebody else writes."""
    connection.ensure_connection()
    raw = connection.connection if connection.vendor == "sqlite" else None
    if raw is None:
        yield
        return
    (patience_ms,) = raw.execute("PRAGMA busy_timeout").fetchone()
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        raw.execute(f"PRAGMA busy_timeout = {patience_ms}")


def close_connection() -> None:
    """Close this thread's connection."""
    connection.close()


def drop_broken_connection() -> bool:
    """Close this thread's connection if an earlier error left it unusable; the next query opens a new one."""
    if connection.connection is None or not connection.errors_occurred:
        return False
    if connection.is_usable():
        connection.errors_occurred = False
        return False
    connection.close()
    return True
