"""When events happened: stored with them, rising, counted from the request on; also by whoever takes it over."""

from datetime import timedelta

import pytest
from django.utils import timezone

from streaming.journal.tail import Tail
from streaming.metrics import finished
from streaming.models import Response, ResponseEvent
from streaming.protocol.events import AT_MS_MAX, TEXT, Draft, Event
from streaming.store import log, orphans

pytestmark = pytest.mark.django_db


def test_events_of_one_commit_share_its_time_and_later_ones_rise():
    tail = Tail("resp_x", 1, received_at=100.0)
    tail.hold([Draft(TEXT, {"text": "a"})])
    (first,) = tail.number(100.25)
    tail.publish([first])
    tail.hold([Draft(TEXT, {"text": "b"})])
    (second,) = tail.number(101.5)
    assert (first.at_ms, second.at_ms) == (250, 1500)


def test_who_takes_a_response_over_counts_on_from_the_request():
    old = timezone.now() - timedelta(seconds=90)
    row = Response.objects.create(purpose="api", dialect="openai_chat", model="m", policy="background")
    Response.objects.filter(id=row.id).update(created_at=old, owner="gone", state="running")
    row.refresh_from_db()
    assert orphans.adopt(row, "next")
    row.refresh_from_db()
    assert orphans.end_orphan(row, orphans.LOST)
    times = list(ResponseEvent.objects.filter(response_id=row.id).order_by("seq").values_list("kind", "at_ms"))
    assert [kind for kind, _ in times] == ["continued", "ended"]
    assert all(90_000 <= at_ms < 150_000 for _, at_ms in times)
    assert [event.kind for event in log.read(row.id)] == ["continued", "ended"]


def of_the_dead(began_ago: timedelta, epoch: int = 1) -> Response:
    row = Response.objects.create(purpose="api", dialect="openai_chat", model="m", policy="background")
    fields = {"created_at": timezone.now() - began_ago, "owner": "gone", "state": "running", "epoch": epoch}
    Response.objects.filter(id=row.id).update(**fields)
    row.refresh_from_db()
    return row


def test_what_was_left_for_months_as_in_an_old_copy_of_the_database_can_be_ended_and_be_carried_on():
    """25 days in milliseconds are more than a column of PostgreSQL's holds."""
    left = of_the_dead(timedelta(days=300))
    (continued,) = orphans.adopt(left, "next")
    tail = Tail(left.id, 2, received_at=100.0, log=[continued])
    tail.began_at -= orphans.age_ms(left, [continued]) / 1000
    tail.hold([Draft(TEXT, {"text": "a"})])
    log.insert((left.id, event) for event in tail.number(1000.0))
    assert orphans.end_orphan(left, orphans.LOST)
    assert set(ResponseEvent.objects.values_list("at_ms", flat=True)) == {AT_MS_MAX}


def test_who_takes_over_with_a_clock_that_is_behind_does_not_turn_time_back():
    left = of_the_dead(-timedelta(seconds=30))
    log.insert([(left.id, Event(1, 1, TEXT, {"text": "a"}, at_ms=8_000))])
    assert orphans.adopt(left, "next")
    left.refresh_from_db()
    assert orphans.end_orphan(left, orphans.LOST)
    assert [event.at_ms for event in log.read(left.id)] == [8_000, 8_000, 8_000]


@pytest.mark.parametrize("began_ago_s", [-3600, 5])
def test_nothing_ends_before_it_began_also_where_the_clock_was_set_back_meanwhile(monkeypatch, began_ago_s):
    """A histogram that is told of less than nothing falls, and Prometheus takes that for a restart."""
    told = []
    monkeypatch.setattr(finished, "note", told.append)
    left = of_the_dead(timedelta(seconds=began_ago_s))
    assert orphans.end_orphan(left, orphans.LOST)
    left.refresh_from_db()
    took = left.ended_at - left.created_at
    assert took == timedelta(0) if began_ago_s < 0 else timedelta(seconds=5) <= took < timedelta(seconds=65)
    assert [one.total_ms for one in told] == [round(took / timedelta(milliseconds=1), 2)]
