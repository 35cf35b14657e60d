"""When events happened: stored with them, rising, counted from the request on; also by whoever takes it over."""

from datetime import timedelta

import pytest
from django.utils import timezone

from streaming.journal.tail import Tail
from streaming.models import Response, ResponseEvent
from streaming.protocol.events import TEXT, Draft
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
