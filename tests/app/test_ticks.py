"""Two beats send every periodic task twice; its work is done once a period. Costs about 1 s."""

import pytest
from django.core.cache import cache

from chatsite.celery import app
from streaming.tasks import reconcile, ticks

SCHEDULED = {entry["task"]: entry["schedule"] for entry in app.conf.beat_schedule.values()}


@pytest.fixture(autouse=True)
def nothing_ran_before():
    cache.clear()
    yield
    cache.clear()


def test_the_books_are_compared_once_however_many_beats_send_it(monkeypatch):
    compared = []
    monkeypatch.setattr(reconcile, "reconcile", lambda: compared.append(1) or [])
    task = app.tasks["streaming.reconcile"]
    for message in ("of one beat", "of another", "of a third"):
        task.apply(task_id=message).get()
    assert compared == [1]
    task.apply(task_id="of one beat").get()
    assert compared == [1, 1], "a worker that was killed half-way gets its own message again"
    cache.clear()  # the period is over
    task.apply(task_id="of another").get()
    assert compared == [1, 1, 1]


@pytest.mark.parametrize("name", SCHEDULED)
def test_whatever_beat_sends_asks_for_its_turn_and_is_worth_nothing_after_its_period(name, monkeypatch):
    asked = []
    monkeypatch.setattr(ticks, "_is_first", lambda *turn: asked.append(turn) and False)
    app.loader.import_default_modules()
    app.tasks[name].apply(task_id="one").get()
    ((task, every_s),) = asked
    assert (task, app.tasks[name].expires) == (name, every_s)
    if isinstance(SCHEDULED[name], float):
        assert every_s == SCHEDULED[name]
