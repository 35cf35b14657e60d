"""Which sessions let an open page or stream stay: those of the same password, an active user, and a time to come."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from streaming.store import access, sessions

pytestmark = pytest.mark.django_db


@pytest.fixture
def session_key(u1):
    u1.set_password("first of all")
    u1.save()
    client = Client()
    client.force_login(u1)
    return client.session.session_key


def counts(session_key) -> bool:
    return session_key in access.still_good(set(), {session_key, "unknown"})


def test_a_session_names_its_user(u1, session_key):
    assert sessions.users_of([session_key, "unknown"]) == {session_key: u1}
    assert counts(session_key)


@pytest.mark.parametrize("what", ["password", "user off", "user gone", "expired", "logged out", "garbage", "nobody's"])
def test_what_ends_a_session_ends_it_for_what_is_open_too(u1, session_key, what):
    session = Session.objects.get(session_key=session_key)
    if what == "password":
        u1.set_password("another")
        u1.save()
    elif what == "user off":
        u1.is_active = False
        u1.save()
    elif what == "user gone":
        u1.delete()
    elif what == "expired":
        session.expire_date = timezone.now() - timedelta(seconds=1)
        session.save()
    elif what == "logged out":
        session.delete()
    elif what == "garbage":
        session.session_data = "garbage"
        session.save()
    else:
        session.session_data = Session.objects.model.get_session_store_class()().encode({})
        session.save()
    assert not counts(session_key)


def test_a_secret_key_that_was_changed_and_still_counts_ends_nothing(u1, session_key, settings):
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "n" * 50
    assert counts(session_key)


def test_any_number_of_sessions_costs_two_queries(session_key, django_assert_num_queries):
    with django_assert_num_queries(2):
        sessions.users_of([session_key, *map(str, range(100))])
