"""What workers count is what every web process shows, and a Valkey that is away keeps no task from its work. 2 s."""

import pytest
from celery.exceptions import Retry
from django.core.cache import cache
from redis.exceptions import ConnectionError as Away

from chatsite.celery import app
from streaming.metrics import task_counts
from streaming.metrics.registry import text_of
from streaming.ownership import gauges, task_series
from streaming.ownership.owner import Owner
from streaming.tasks import counting


@pytest.fixture(autouse=True)
def _nothing_counted():
    cache.clear()
    yield
    cache.clear()


class Task:
    name = "streaming.expire"


def run(state, task_id="1"):
    counting.begins(task_id)
    counting.is_over(task_id, Task, state)


async def shown() -> dict[str, float]:
    owner = Owner()
    owner.observer.found.tasks = task_series.read()
    lines = text_of(gauges.Gauges(owner)).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_every_task_there_is_can_be_counted():
    app.loader.import_default_modules()
    names = {name.removeprefix("streaming.") for name in app.tasks if name.startswith("streaming.")}
    assert names == set(task_counts.TASKS)


async def test_runs_are_told_by_how_they_ended_and_their_time():
    for state in ("SUCCESS", "SUCCESS", "FAILURE", "RETRY"):
        run(state)
    counting.is_killed(Task, counting.WorkerLostError())
    counting.is_killed(Task, Retry())  # of that its own process told
    told = await shown()
    ends = {"succeeded": 2, "failed": 1, "retried": 1, "killed": 1}
    assert {end: told[f'chat_task_runs_total{{ended="{end}",task="expire"}}'] for end in ends} == ends
    assert 0 <= told['chat_task_seconds_total{task="expire"}'] < 5
    assert counting._began_s == {}


async def test_webhooks_are_told_by_what_became_of_them():
    for ended in ("taken", "taken", "given_up"):
        task_counts.delivered(ended)
    told = await shown()
    assert told['chat_webhook_deliveries_total{ended="taken"}'] == 2
    assert told['chat_webhook_deliveries_total{ended="given_up"}'] == 1
    assert 'chat_webhook_deliveries_total{ended="failed"}' not in told


async def test_without_valkey_nothing_is_told_and_nothing_fails(monkeypatch):
    def away(*_, **__):
        raise Away("refused")

    for name in ("add", "incr", "get_many"):
        monkeypatch.setattr(type(cache._connections["default"]), name, away)
    run("SUCCESS")
    task_counts.delivered("taken")
    assert not any(name.startswith(("chat_task", "chat_webhook")) for name in await shown())


def test_a_name_that_nobody_knows_makes_no_series():
    task_counts.ran("something_else", "succeeded", 1.0)
    assert task_counts.runs() == {}
