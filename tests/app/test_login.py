"""Logging in and out: links that work once, passwords, rotated sessions."""

import threading
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from streaming.models import LoginToken
from streaming.store import access
from tests.e2e.reading import eventually

pytestmark = pytest.mark.django_db


@pytest.fixture
def link(u1):
    return f"/login/{access.issue_login_token(u1, timedelta(minutes=5))}"


def is_in(client):
    return client.get("/api/me").status_code == 200


def test_a_link_logs_in_once_and_says_clearly_when_it_is_used(link, anon):
    response = anon.get(link)
    assert (response.status_code, response["Location"]) == (302, "/")
    assert is_in(anon)
    second = Client()
    response = second.get(link)
    assert response.status_code == 410
    assert "does not work any more" in response.content.decode()
    assert not is_in(second)


def test_an_expired_link_a_disabled_users_link_and_garbage_do_not_log_in(u1, link, anon):
    LoginToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert anon.get(link).status_code == 410
    LoginToken.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    u1.is_active = False
    u1.save()
    assert anon.get(link).status_code == 410
    assert LoginToken.objects.get().used_at is None
    for n, token in enumerate(("x", "%00", "' OR 1=1--", "k" * 43, "k" * 9000, "é" * 43)):
        assert anon.get(f"/login/{token}", REMOTE_ADDR=f"192.0.2.{n}").status_code == 410
    assert not is_in(anon)


def test_looking_ahead_does_not_use_a_link_up(link, anon):
    assert anon.head(link).status_code == 405
    assert anon.post(link).status_code in {403, 405}
    assert anon.get(link, headers={"Sec-Purpose": "prefetch;prerender"}).status_code == 204
    assert not is_in(anon)
    assert anon.get(link).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_at_the_same_time_one_is_logged_in(u1):
    token = access.issue_login_token(u1, timedelta(minutes=5))
    won = []

    def redeem():
        if access.redeem_login_token(token) is not None:
            won.append(1)
        connection.close()

    threads = [threading.Thread(target=redeem) for _ in range(2)]
    with transaction.atomic():
        LoginToken.objects.select_for_update().get()
        [thread.start() for thread in threads]
        eventually(both_wait_for_a_row)
    [thread.join() for thread in threads]
    assert won == [1]


def both_wait_for_a_row():
    """SQLite does not say who waits; there the transaction around this keeps every writer out."""
    if connection.vendor == "sqlite":
        return True
    with connection.cursor() as cursor:
        # Within a transaction the view is as it was at the first look.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        here = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
        cursor.execute(f"{here} AND wait_event_type = 'Lock'")
        return cursor.fetchone()[0] == 2


@pytest.mark.django_db(transaction=True)
async def test_the_whole_stack_logs_in_and_answers_on_an_event_loop(async_client, django_user_model):
    user = await django_user_model.objects.acreate(username="looped")
    token = await access_async(user)
    assert (await async_client.get(f"/login/{token}")).status_code == 302
    response = await async_client.get("/api/me")
    assert response.json() == {"username": "looped", "is_staff": False}
    assert (await async_client.get("/healthz")).json() == {"status": "ok"}
    assert (await async_client.post("/logout/")).status_code == 302
    assert (await async_client.get("/api/me")).status_code == 401


async def access_async(user):
    from asgiref.sync import sync_to_async

    return await sync_to_async(access.issue_login_token)(user, timedelta(minutes=5))


def test_a_session_from_before_the_login_is_worth_nothing_after_it(u1, link, anon):
    planted = Client()
    planted.get("/login/")
    planted.session.save()
    before = planted.session.session_key
    planted.cookies["sessionid"] = before
    planted.get(link)
    after = planted.cookies["sessionid"].value
    assert after != before
    assert not Session.objects.filter(session_key=before).exists()
    assert planted.cookies["sessionid"]["httponly"]
    assert planted.cookies["sessionid"]["samesite"] == "Lax"


def test_a_password_logs_in_and_a_wrong_one_or_an_unknown_name_are_told_alike(u1, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    u1.set_password("correct horse battery")
    u1.save()
    client = Client()
    said = []
    for username, password in (("u1", "wrong"), ("nobody", "wrong")):
        response = client.post("/login/", {"username": username, "password": password})
        assert response.status_code == 200
        said.append([str(error) for error in response.context["form"].non_field_errors()])
    assert said[0] == said[1]
    assert said[0]
    response = client.post("/login/", {"username": "u1", "password": "correct horse battery", "next": "//evil.example"})
    assert (response.status_code, response["Location"]) == (302, "/")
    assert is_in(client)


def test_the_login_form_and_logout_insist_on_a_csrf_token(anon, page1):
    assert anon.post("/login/", {"username": "u1", "password": "x"}).status_code == 403
    assert page1.get("/logout/").status_code == 405
    del page1.defaults["HTTP_X_CSRFTOKEN"]
    assert page1.post("/logout/").status_code == 403
    assert is_in(page1)
    response = page1.post("/logout/", {"csrfmiddlewaretoken": "t" * 32})
    assert (response.status_code, response["Location"]) == (302, "/login/")
    assert not is_in(page1)


def test_the_command_prints_the_path_alone_and_makes_the_user_with_rights_only_if_asked(db, capsys, anon):
    call_command("login_link", "visitor")
    path, err = capsys.readouterr()
    assert err == ""
    assert anon.get(path.removesuffix("\n")).status_code == 302
    assert not User.objects.get(username="visitor").is_staff
    call_command("login_link", "root", "--create-superuser")
    assert User.objects.get(username="root").is_superuser
    with pytest.raises(CommandError):
        call_command("login_link", "no such name")
