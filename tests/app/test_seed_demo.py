"""A made-up past: as much of it as asked for, true to every constraint, never mixed with real people unasked."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models import Count, Max, Min, Q

from streaming.models import ApiKey, Engine, Response, ResponseEvent
from streaming.protocol.end_state import END_STATES, REASONS
from streaming.store import log

pytestmark = pytest.mark.django_db


def test_what_is_made_up_looks_like_a_site(capsys):
    call_command("seed_demo", responses=3000, days=10, logs=40)
    assert "3000 responses of 10 days, 40 of them with their logs" in capsys.readouterr().out
    rows = Response.objects.all()
    assert rows.count() == 3000
    ends = set(rows.values_list("end_state", "end_reason").distinct())
    assert {state for state, _ in ends} == set(END_STATES)
    assert all(reason in REASONS[state] for state, reason in ends)
    first, last = rows.aggregate(a=Min("created_at"), b=Max("created_at")).values()
    assert timedelta(days=9) < last - first <= timedelta(days=10)
    assert list(rows.order_by("created_at").values_list("id", flat=True)[:50]) == sorted(
        rows.order_by("created_at").values_list("id", flat=True)[:50]
    )
    share = rows.aggregate(done=Count("id", filter=Q(end_state="completed")))["done"] / 3000
    assert 0.8 < share < 0.92


def test_the_newest_have_logs_that_fit_their_rows():
    call_command("seed_demo", responses=200, days=2, logs=30, verbosity=0)
    for row in Response.objects.order_by("-created_at")[:30]:
        events = log.read(row.id)
        assert [event.seq for event in events] == list(range(1, row.last_seq + 1))
        assert events[-1].kind == "ended"
        assert sum(event.token_count for event in events) == row.sent_tokens
        times = [event.at_ms for event in events]
        assert times == sorted(times)
        assert "".join(event.payload.get("text", "") for event in events) == row.output_text
    assert ResponseEvent.objects.values("response").distinct().count() == 30


def test_it_does_not_touch_a_database_of_real_people_unasked(u1):
    with pytest.raises(CommandError, match=r"not made up \(u1 …\).*--yes"):
        call_command("seed_demo", responses=10)
    assert not Response.objects.exists()
    assert User.objects.count() == 1
    call_command("seed_demo", responses=10, yes=True)
    assert Response.objects.count() == 10


def test_it_can_be_run_again_and_its_engines_are_never_asked():
    call_command("seed_demo", responses=10)
    people = User.objects.count(), ApiKey.objects.count(), Engine.objects.count()
    call_command("seed_demo", responses=10)
    assert (User.objects.count(), ApiKey.objects.count(), Engine.objects.count()) == people
    assert Response.objects.count() == 20
    assert not Engine.objects.filter(enabled=True).exists()
    assert not any(user.has_usable_password() for user in User.objects.all())


@pytest.mark.parametrize("wrong", [{"responses": 0}, {"days": 0}, {"logs": -1}])
def test_nonsense_is_refused_in_words(wrong):
    with pytest.raises(CommandError, match="must be at least 1, --logs at least 0"):
        call_command("seed_demo", **wrong)
