"""Two beats send every periodic task twice; its work is done once a period. Costs about 1 s."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.core.cache import cache

from chatsite.beat import Scheduler
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
def test_whatever_beat_sends_asks_for_its_turn_and_is_judged_by_no_clock_of_another_machine(name, monkeypatch):
    asked = []
    monkeypatch.setattr(ticks, "_is_first", lambda *turn: asked.append(turn) and False)
    app.loader.import_default_modules()
    app.tasks[name].apply(task_id="one").get()
    ((task, every_s),) = asked
    assert (task, app.tasks[name].expires) == (name, None)
    if isinstance(SCHEDULED[name], float):
        assert every_s == SCHEDULED[name]


@pytest.mark.parametrize("ago_s", [3600, -3600], ids=["set back", "ahead of this worker"])
def test_a_turn_that_valkeys_clock_keeps_for_an_hour_is_over_by_the_workers(monkeypatch, ago_s):
    compared = []
    monkeypatch.setattr(reconcile, "reconcile", lambda: compared.append(1) or [])
    cache.set("ran:streaming.reconcile", ("of one long ago", time.time() - ago_s), None)
    task = app.tasks["streaming.reconcile"]
    for message in ("of one beat", "of another"):
        task.apply(task_id=message).get()
    assert compared == [1]


class Clock:
    """beat's, which a test sets."""

    def __init__(self):
        self.now = datetime(2026, 3, 29, 0, 59, 50, tzinfo=UTC)

    def __call__(self):
        return self.now

    def run(self, scheduler, seconds):
        """Let beat go on for so long, as it sleeps itself."""
        left_s = float(seconds)
        while left_s > 0:
            slept_s = min(left_s, max(0.001, scheduler.tick()))
            self.now += timedelta(seconds=slept_s)
            left_s -= slept_s


class Sent(dict):
    """How often which task was sent since somebody looked."""

    def take(self):
        taken = dict(self)
        self.clear()
        return taken


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(app, "now", clock)
    return clock


@pytest.fixture
def sent(monkeypatch):
    sent = Sent()
    monkeypatch.setattr(Scheduler, "apply_entry", lambda _, e, producer: sent.update({e.name: sent.get(e.name, 0) + 1}))
    monkeypatch.setattr(Scheduler, "producer", None)
    return sent


def a_beat(tmp_path):
    return Scheduler(app=app, schedule_filename=str(tmp_path / "beat"))


@pytest.mark.parametrize("back", [timedelta(seconds=3), timedelta(hours=1), timedelta(days=400)])
def test_beat_goes_on_sending_when_its_clock_is_set_back_and_after_a_start_with_a_file_of_the_future(
    tmp_path, clock, sent, back
):
    beat = a_beat(tmp_path)
    clock.run(beat, 60)
    usual = sent.take()
    assert usual["end-orphans"] in (11, 12, 13)
    clock.now -= back
    clock.run(beat, 60)
    assert sent.take()["end-orphans"] in (11, 12, 13)
    beat.close()
    clock.now -= back
    again = a_beat(tmp_path)
    clock.run(again, 60)
    assert sent.take()["end-orphans"] in (11, 12, 13)
    clock.now += back
    clock.run(again, 60)
    assert sent.take()["end-orphans"] in (11, 12, 13)
    again.close()
