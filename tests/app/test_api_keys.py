"""The life of an API key, and everything that is no key."""

import threading
from datetime import timedelta

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from streaming.api import refusals
from streaming.models import ApiKey
from streaming.store import access

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.app.probe_urls")]


def ask(authorization):
    headers = {} if authorization is None else {"Authorization": authorization}
    client = Client(raise_request_exception=False)
    return client.post("/v1/probe", "{}", content_type="application/json", headers=headers)


def code_of(response):
    assert response.status_code == 401, response.content
    assert response["WWW-Authenticate"] == "Bearer"
    return response.json()["error"]["code"]


def test_a_key_opens_the_api_as_its_user(key1):
    response = ask(f"Bearer {key1}")
    assert response.status_code == 200
    assert response.json()["user"] == "u1"
    assert ask(f"bearer  {key1}").status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer ' OR 1=1--",
        "Bearer sk-' OR '1'='1",
        "Bearer " + "k" * 8192,
        "Bearer sk-" + "k" * 43,
        "Bearer sk-\0" + "k" * 42,
        "Bearer sk-" + "é" * 43,
        "Bearer sk-" + "٣" * 43,
        "Bearer",
        "Bearer ",
        "Bearer sk-\n" + "k" * 43,
    ],
)
def test_garbage_in_place_of_a_key_is_401_and_never_an_error(key1, authorization):
    assert code_of(ask(authorization)) == "invalid_api_key"


@pytest.mark.parametrize("authorization", [None, "", "Basic dTE6cHc=", "sk-x"])
def test_a_request_without_a_key_is_told_how_to_send_one(db, authorization):
    assert code_of(ask(authorization)) == "missing_api_key"


def test_a_key_counts_only_whole_and_alone(key1):
    for wrong in (key1[:-1], key1 + "x", f"{key1},Bearer {key1}", f"{key1} {key1}", key1.swapcase(), f"{key1}\n x"):
        assert code_of(ask(f"Bearer {wrong}")) == "invalid_api_key"


def test_only_the_authorization_header_and_anthropics_are_read_and_the_first_wins(key1):
    client = Client()
    body = {"data": '{"count": 1}', "content_type": "application/json"}
    assert client.post("/v1/probe", headers={"x-api-key": key1}, **body).status_code == 200
    wrong = [(key1, "Bearer sk-wrong"), ("", None), ("sk-wrong", None), (f"Bearer {key1}", None)]
    for x_api_key, authorization in wrong:
        headers = {"x-api-key": x_api_key, **({"authorization": authorization} if authorization else {})}
        assert client.post("/v1/probe", headers=headers, **body).status_code == 401
    for headers in ({"api-key": key1}, {"proxy-authorization": f"Bearer {key1}"}):
        assert client.post("/v1/probe", headers=headers, **body).status_code == 401
    assert client.post(f"/v1/probe?api_key={key1}&key={key1}&authorization=Bearer%20{key1}", **body).status_code == 401
    client.cookies["Authorization"] = f"Bearer {key1}"
    assert client.post("/v1/probe", **body).status_code == 401


def test_a_revoked_an_expired_and_a_disabled_users_key_say_so(u1, key1):
    row = ApiKey.objects.get()
    row.expires_at = timezone.now() - timedelta(seconds=1)
    row.save()
    assert code_of(ask(f"Bearer {key1}")) == "key_expired"
    row.expires_at = timezone.now() + timedelta(hours=1)
    row.save()
    assert ask(f"Bearer {key1}").status_code == 200
    u1.is_active = False
    u1.save()
    assert code_of(ask(f"Bearer {key1}")) == "key_revoked"
    u1.is_active = True
    u1.save()
    assert access.revoke_keys([row.pk]) == 1
    assert access.revoke_keys([row.pk]) == 0
    assert code_of(ask(f"Bearer {key1}")) == "key_revoked"


def test_a_known_caller_who_is_refused_is_reported_and_a_stranger_is_not(key1, monkeypatch):
    seen = []

    async def note(request, api_key, refused):
        seen.append((request.path, api_key.user.username, refused.code))

    monkeypatch.setattr(refusals, "record_key", note)
    ask("Bearer sk-" + "k" * 43)
    access.revoke_keys([ApiKey.objects.get().pk])
    ask(f"Bearer {key1}")
    assert seen == [("/v1/probe", "u1", "key_revoked")]


def test_a_use_is_noted_at_most_once_a_minute(key1, django_assert_num_queries):
    row = ApiKey.objects.get()
    assert row.last_used_at is None
    with django_assert_num_queries(2):
        access.find_key(key1)
    first = ApiKey.objects.get().last_used_at
    assert first is not None
    with django_assert_num_queries(1):
        access.find_key(key1)
    assert ApiKey.objects.get().last_used_at == first
    ApiKey.objects.update(last_used_at=first - timedelta(minutes=2))
    access.find_key(key1)
    assert ApiKey.objects.get().last_used_at >= first


def test_the_database_holds_no_key_and_no_login_token(u1, key1):
    token = access.issue_login_token(u1, timedelta(minutes=5))
    dump = "".join(str(model.objects.values_list()[:]) for model in apps.get_models())
    assert u1.username in dump
    assert key1[:8] in dump
    for secret in (key1, key1[3:], key1[-20:], token, token[-20:]):
        assert secret not in dump


def test_the_command_prints_one_key_and_nothing_else(db, capsys):
    call_command("create_api_key", "newcomer")
    out, err = capsys.readouterr()
    assert out.endswith("\n")
    assert err == ""
    found = access.find_key(out.removesuffix("\n"))
    assert found.api_key.user.username == "newcomer"
    assert not found.api_key.user.has_usable_password()


@pytest.mark.parametrize("username", ["", "a b", "x" * 151, "né\0w", "a\nb"])
def test_the_command_refuses_an_impossible_username_in_one_line(db, username):
    with pytest.raises(CommandError) as refused:
        call_command("create_api_key", username)
    assert "\n" not in str(refused.value)
    assert "username" in str(refused.value)
    assert not ApiKey.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_key_works_from_many_threads_at_once(key1):
    found = []

    def use():
        found.append(access.find_key(key1).state)
        connection.close()

    threads = [threading.Thread(target=use) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == ["valid"] * 8
