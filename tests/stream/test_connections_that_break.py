"""A connection that is closed under a query is an outage like any other: loops go on, reading is done again."""

import asyncio

import pytest
from django.db import DatabaseError, InterfaceError, connection

from streaming.store import orphans, threads, watch
from tests.databases import of_django
from tests.stream.conftest import DEADLINE_S


def closed(*_args):
    raise InterfaceError("connection already closed")


@pytest.mark.parametrize("through", [threads.run, threads.write])
async def test_whoever_asks_learns_of_it_as_of_every_other_trouble(through):
    with pytest.raises(DatabaseError, match="already closed"):
        await through(closed)


@pytest.fixture(autouse=True)
def _quick_beats(settings):
    settings.BEAT_S = 0.01


async def test_a_process_beats_on_after_its_connection_was_closed_under_it(bench, monkeypatch):
    failures = [True, True]
    real = orphans.beat

    def beat(process_id):
        if failures:
            failures.pop()
            closed()
        real(process_id)

    monkeypatch.setattr(orphans, "beat", beat)
    async with asyncio.timeout(DEADLINE_S):
        while failures:
            await asyncio.sleep(0.01)
        before = (await threads.run(watch.beats))[bench.owner.id]
        while (await threads.run(watch.beats))[bench.owner.id] <= before:
            await asyncio.sleep(0.01)


@pytest.fixture
def _own_connection(transactional_db):
    """The test's own is broken too."""
    yield
    connection.close()


@pytest.mark.usefixtures("_own_connection")
async def test_a_server_that_hangs_up_costs_a_reader_nothing(bench):
    """PostgreSQL started again: every thread's connection is broken at once."""
    if connection.vendor == "postgresql":
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        await asyncio.to_thread(of_django().rows, f"SELECT pg_terminate_backend(pid) {others}")
    assert bench.owner.id in await threads.run(watch.beats)
    response, _tail = await bench.ask({"outputs": [{"text": "a"}]})
    assert (await bench.ended(response)).output_text == "a"


async def test_a_process_that_goes_says_so_although_its_connection_was_closed_meanwhile(bench, monkeypatch):
    """PostgreSQL only: else its answers would wait until it is judged dead."""
    hang_ups = ["one"] if connection.vendor == "postgresql" else []
    real = orphans.release

    def release(process_id):
        if hang_ups:
            hang_ups.pop()
            connection.cursor().execute("SELECT pg_terminate_backend(pg_backend_pid())")
        real(process_id)

    monkeypatch.setattr(orphans, "release", release)
    await bench.owner.drain(0)
    assert bench.owner.id not in await threads.run(watch.beats)
