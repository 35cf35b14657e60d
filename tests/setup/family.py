"""Owns what is left of processes that were seen under another one. Starts and ends none."""

import time

import psutil


def still_running(family: list[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Those that still run, some time after. A zombie is gone: only init has not noticed yet."""
    give_up_s = time.monotonic() + within_s
    while (alive := [one for one in family if _runs(one)]) and time.monotonic() < give_up_s:
        psutil.wait_procs(alive, timeout=0.1)
    return alive


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
