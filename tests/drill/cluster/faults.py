"""Owns what is done to the cluster's parts in turn, and that each is back afterwards. Knows no reader and no law."""

import random
import signal
import time
from collections.abc import Callable, Iterator

from tests.drill.cluster.up import Up
from tests.drill.sites import END_S, process_of

Fault = tuple[str, Callable[[], None]]


def in_turn(seed: int, up: Up) -> Iterator[Fault]:
    """For ever: rounds of every fault, each round in an order of its own."""
    chance = random.Random(seed)
    while True:
        yield from chance.sample(_round(chance, up), k=len(NAMES))


NAMES = ("web killed", "web terminated", "engine killed", "worker killed", "valkey killed", "postgres killed")


def _round(chance: random.Random, up: Up) -> list[Fault]:
    sites, tasks = up.stack.sites, up.stack.tasks
    killed, terminated = chance.sample(sites, k=2)
    engine = chance.choice(up.engines)
    away_s = [chance.uniform(0.2, 2) for _ in NAMES]

    def web(site: object, signum: int, for_s: float) -> None:
        process_of(site).end(signum, END_S)
        time.sleep(for_s)
        site.start()

    def other_process(end: Callable[[], object], start: Callable[[], None], for_s: float) -> None:
        end()
        time.sleep(for_s)
        start()

    def kill_engine() -> None:
        other_process(lambda: engine.process.end(signal.SIGKILL), engine.start, away_s[2])

    def kill_worker() -> None:
        other_process(lambda: tasks.running["worker"].end(signal.SIGKILL), lambda: tasks.start("worker"), away_s[3])

    def kill_valkey() -> None:
        other_process(up.stack.valkey.kill, up.stack.valkey.start, away_s[4])

    def kill_postgres() -> None:
        other_process(lambda: up.stack.database.kill(lambda _: True), up.stack.database.start, away_s[5])

    done = (
        lambda: web(killed, signal.SIGKILL, away_s[0]),
        lambda: web(terminated, signal.SIGTERM, away_s[1]),
        kill_engine,
        kill_worker,
        kill_valkey,
        kill_postgres,
    )
    return list(zip(NAMES, done, strict=True))
