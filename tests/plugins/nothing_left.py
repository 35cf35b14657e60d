"""Owns that no test leaves its process changed for the next one: which file comes after which at a worker is chance.

It looks at what a whole process shares and fixtures are to give back. Rows, caches and files are not looked at.
"""

import locale
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

State = dict[str, object]


def _environment() -> State:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _signals() -> State:
    """All but the one by which the patience with a test ends."""
    return {str(number): signal.getsignal(number) for number in signal.valid_signals() - {signal.SIGALRM}}


def _loggers() -> State:
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    loggers = [logger for logger in known if isinstance(logger, logging.Logger)]
    levels = {logger.name: (logger.level, logger.propagate, logger.disabled) for logger in loggers}
    return levels | {"disabled below": logging.root.manager.disable}


def _celery() -> State:
    """The current one of this thread, once there is one."""
    state = sys.modules.get("celery._state")
    return {"current": state._tls.current_app} if state and state._tls.current_app else {}


def _rest() -> State:
    return {
        "folder": Path.cwd(),
        "import path": frozenset(sys.path),
        "time zone": time.tzname,
        "locale": locale.setlocale(locale.LC_ALL),
    }


SHARED: dict[str, Callable[[], State]] = {
    "environment": _environment,
    "signal": _signals,
    "logger": _loggers,
    "Celery application": _celery,
    "process": _rest,
}

#: A module that is imported brings its own.
GROW = ("logger", "Celery application")


def left(before: State, after: State) -> dict[str, tuple[object, object]]:
    """What was changed or taken away, and what is new, by name: its value before and after."""
    names = before.keys() | after.keys()
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


_BEFORE = pytest.StashKey[dict[str, State]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEFORE] = {kind: look() for kind, look in SHARED.items()}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """When all that the test asked for has been given back."""
    yield
    before = item.stash[_BEFORE]
    for kind, look in SHARED.items():
        after = look()
        if kind in GROW:
            after = {name: value for name, value in after.items() if name in before[kind]}
        assert not (changed := left(before[kind], after)), f"left behind ({kind}): {changed}"
