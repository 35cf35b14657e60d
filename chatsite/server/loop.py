"""Owns the event loop under Twisted's reactor (uvloop where it installs) and its clock; does not run it."""

import asyncio
import time
from typing import Any

import daphne.server  # installs the asyncio reactor; has to come before any import of the reactor itself
from twisted.internet import reactor as installed_reactor

reactor: Any = installed_reactor


def fast_loop() -> asyncio.AbstractEventLoop | None:
    """A new uvloop loop, or nothing where uvloop does not exist."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop()


def prepare_loop() -> None:
    """Give the reactor uvloop's loop and a monotonic clock, before anything is scheduled on it."""
    # Twisted's timers follow the wall clock: a jump of an hour would fire or freeze every timeout.
    reactor.seconds = time.monotonic
    if loop := fast_loop():
        move_reactor(loop)
    asyncio.set_event_loop(reactor._asyncioEventloop)


def move_reactor(loop: asyncio.AbstractEventLoop) -> None:
    """Django imports daphne, and daphne installs its loop, before any command runs: so the loop is swapped."""
    if reactor.running or reactor.getDelayedCalls():
        raise RuntimeError("the reactor is already in use, its event loop cannot be exchanged")
    old, readers = reactor._asyncioEventloop, reactor.getReaders()
    for reader in readers:
        reactor.removeReader(reader)
    reactor._asyncioEventloop = daphne.server.twisted_loop = loop
    for reader in readers:
        reactor.addReader(reader)
    old.close()
