"""What lets somebody in goes by the database's clock, and by no moment that it cannot have been given."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from streaming.models import ApiKey
from streaming.store import access, clock, invitations
from streaming.views import login_tries, password_reset

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
FOUR_HUNDRED_DAYS = timedelta(days=400)
APART = [timedelta(hours=1), timedelta(hours=-1), FOUR_HUNDRED_DAYS, -FOUR_HUNDRED_DAYS]


@pytest.fixture
def ann(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.SIGNUP = "invite"
    return User.objects.create_user("ann", "ann@example.org", PASSWORD)


@pytest.fixture
def set_clock(monkeypatch):
    """Sets the clock of whoever asks: that of the process, or the database's as the process reads it."""

    def put(whose, ahead):
        if whose == "process":
            monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + ahead)
        else:
            monkeypatch.setattr(clock, "now_s", lambda: time.time() + ahead.total_seconds())

    return put


def session_of(user):
    client = Client()
    client.force_login(user)
    return client


def is_inside(client):
    return client.get("/api/me").status_code == 200


@pytest.mark.parametrize("ahead", APART, ids=str)
def test_a_process_whose_clock_is_wrong_lets_in_whom_the_others_let_in(ann, set_clock, ahead):
    early = session_of(ann)
    invitation = invitations.issue(None, timedelta(days=7))[1]
    link, reset = access.issue_login_token(ann, timedelta(hours=1)), password_reset.tokens.make_token(ann)
    key = access.new_key(ann, lifetime=timedelta(hours=2))[1]
    set_clock("process", ahead)
    late = session_of(User.objects.create_user("bob"))
    key_made_there = access.new_key(ann, lifetime=timedelta(hours=2))[0]
    assert is_inside(early)
    assert is_inside(late)
    assert access.find_key(key).state == "valid"
    assert password_reset.tokens.check_token(ann, reset)
    assert invitations.is_good(invitation)
    assert access.redeem_login_token(link) == ann
    for made, lifetime in (
        (Session.objects.get(session_key=late.session.session_key).expire_date, timedelta(days=14)),
        (key_made_there.expires_at, timedelta(hours=2)),
    ):
        assert abs(made - datetime.now(UTC) - lifetime) < timedelta(minutes=5)


@pytest.mark.parametrize("ahead", APART, ids=str)
def test_what_has_expired_does_not_come_back_where_the_clock_is_set_back(ann, set_clock, ahead):
    gone = session_of(ann)
    key_row, key = access.new_key(ann, lifetime=timedelta(hours=2))
    invitation_row, invitation = invitations.issue(None, timedelta(days=7))
    link = access.issue_login_token(ann, timedelta(hours=1))
    expired = datetime.now(UTC) - timedelta(minutes=1)
    Session.objects.update(expire_date=expired)
    for row in (key_row, invitation_row):
        row.expires_at = expired
        row.save()
    ann.logintoken_set.update(expires_at=expired)
    set_clock("process", ahead)
    assert not is_inside(gone)
    assert access.find_key(key).state == "key_expired"
    assert access.key_of_id(key_row.pk).state == "key_expired"
    assert list(access.working_keys(ann)) == []
    assert access.still_good({key_row.pk}, {gone.session.session_key}) == set()
    assert not invitations.is_good(invitation)
    assert access.redeem_login_token(link) is None


@pytest.mark.parametrize("ahead", APART[:1] + APART[2:3], ids=str)
def test_what_was_used_stays_used_whatever_the_clock_says(ann, set_clock, ahead):
    link, invitation = access.issue_login_token(ann, timedelta(hours=1)), invitations.issue(None, timedelta(days=7))[1]
    reset = password_reset.tokens.make_token(ann)
    assert access.redeem_login_token(link) == ann
    assert invitations.use_up(invitation, ann)
    ann.set_password("another one")
    ann.save()
    for whose in ("process", "database"):
        for sign in (1, -1):
            set_clock(whose, sign * ahead)
            assert access.redeem_login_token(link) is None
            assert not invitations.use_up(invitation, ann)
            assert not password_reset.tokens.check_token(ann, reset)


def test_what_was_made_while_the_databases_clock_was_ahead_does_not_count_for_as_long(ann, set_clock):
    set_clock("database", FOUR_HUNDRED_DAYS)
    late = session_of(ann)
    link, reset = access.issue_login_token(ann, timedelta(hours=1)), password_reset.tokens.make_token(ann)
    invitation = invitations.issue(None, timedelta(days=7))[1]
    assert password_reset.tokens.check_token(ann, reset)
    set_clock("database", timedelta())
    assert not is_inside(late)
    assert access.redeem_login_token(link) is None
    assert not invitations.is_good(invitation)
    assert not password_reset.tokens.check_token(ann, reset)


def test_a_keys_last_use_is_noted_again_after_the_clock_was_set_back(ann, set_clock):
    row, key = access.new_key(ann)
    set_clock("process", FOUR_HUNDRED_DAYS)
    access.find_key(key)
    set_clock("process", timedelta())
    access.find_key(key)
    assert abs(ApiKey.objects.get(pk=row.pk).last_used_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_key_for_some_days_is_made_from_the_databases_today(set_clock):
    set_clock("process", FOUR_HUNDRED_DAYS)
    # Not tomorrow, which may have begun when it is asked for.
    day = datetime.now(UTC).date() + timedelta(days=2)
    assert timedelta() < access.until(day) <= timedelta(days=2)


def go_to_a_process(monkeypatch, ahead):
    """One with that clock. Axes has a name of its own for what asks it."""
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + ahead)
    monkeypatch.setattr("axes.handlers.proxy.now", lambda: datetime.now(UTC) + ahead)


def knock(monkeypatch, ahead, password="wrong"):
    go_to_a_process(monkeypatch, ahead)
    form = {"username": "ann", "password": password}
    return Client(REMOTE_ADDR="192.0.2.1").post("/login/", form)


def test_two_processes_whose_clocks_are_apart_count_wrong_passwords_together(ann, monkeypatch):
    hours = [timedelta(), timedelta(hours=1)]
    codes = [knock(monkeypatch, hours[nth % 2]).status_code for nth in range(12)]
    assert codes.index(429) <= 5
    assert codes[-1] == 429
    for ahead in (*hours, FOUR_HUNDRED_DAYS, -FOUR_HUNDRED_DAYS):
        refused = knock(monkeypatch, ahead, PASSWORD)
        assert refused.status_code == 429
        assert 0 < int(refused["Retry-After"]) <= 300
    AccessAttempt.objects.update(attempt_time=datetime.now(UTC) - timedelta(seconds=301))
    for ahead in hours:
        assert knock(monkeypatch, ahead, PASSWORD).status_code == 302


@pytest.mark.parametrize("ahead", APART, ids=str)
def test_who_leaves_or_comes_in_where_the_clock_is_wrong_takes_no_wrong_tries_of_others_along(ann, monkeypatch, ahead):
    """Anybody may leave, also who is not in."""
    codes = [knock(monkeypatch, timedelta()).status_code for _ in range(5)]
    assert codes[-1] == 429
    go_to_a_process(monkeypatch, ahead)
    Client().logout()
    session_of(User.objects.create_user("bob"))
    assert knock(monkeypatch, timedelta(), PASSWORD).status_code == 429


def test_tries_are_counted_by_the_databases_clock(rf, set_clock):
    request = rf.post("/login/")
    set_clock("process", FOUR_HUNDRED_DAYS)
    login_tries.count(request, login_tries.A_LINK)
    assert abs(AccessAttempt.objects.get().attempt_time - datetime.now(UTC)) < timedelta(minutes=1)
