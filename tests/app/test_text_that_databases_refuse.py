"""NUL and half surrogate pairs, which PostgreSQL refuses and SQLite takes: no door lets them as far as a database."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver, reverse

from streaming.models import Conversation, Engine
from streaming.pool import pool

pytestmark = pytest.mark.django_db(transaction=True)

NUL = "a\0b"


def get_paths():
    """Every path that can be asked for, NUL in place of each part of it that varies."""
    found = []
    for root in ("api/", "v1/", ""):
        (resolver,) = (
            [p for p in get_resolver("chatsite.urls").url_patterns if str(p.pattern) == root]
            if root
            else [get_resolver("chatsite.urls")]
        )
        found += [root + str(p.pattern) for p in resolver.url_patterns if "<" in str(p.pattern)]
    return sorted({"/" + re.sub(r"<[^>]+>", "a%00b", path) for path in found})


@pytest.mark.parametrize("path", get_paths())
@pytest.mark.parametrize("method", ["get", "post"])
def test_nul_in_a_path_names_nothing(page1, key1, path, method):
    client = Client(headers={"Authorization": f"Bearer {key1}"}) if path.startswith("/v1") else page1
    assert getattr(client, method)(path).status_code in {200, 302, 400, 403, 404, 405, 410, 422}


@pytest.mark.parametrize("query", ["q", "before", "p", "o", "user__id__exact", "end_state__exact", "model", "id", "e"])
@pytest.mark.parametrize("where", ["/api/search", "/api/conversations", "response", "conversation", "user", "engine"])
def test_nul_in_a_query_is_no_error_of_ours(u1, where, query):
    User.objects.filter(pk=u1.pk).update(is_staff=True, is_superuser=True)
    client = Client(raise_request_exception=False)
    client.force_login(u1)
    if not where.startswith("/"):
        where = reverse(f"admin:{'auth' if where == 'user' else 'streaming'}_{where}_changelist")
    answer = client.get(where, {query: NUL})
    assert answer.status_code in {200, 302, 400, 404, 422}


@pytest.mark.parametrize("name", ["username", "password"])
def test_nul_in_a_login_is_a_wrong_login(name):
    answer = Client(raise_request_exception=False).post("/login/", {"username": "u", "password": "p", name: NUL})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "header", ["Idempotency-Key", "Last-Event-ID", "X-Disconnect-Policy", "Cookie", "Authorization"]
)
@pytest.mark.parametrize("value", [NUL, "\xe4\xff"])
def test_a_header_of_bytes_that_no_database_takes_is_refused_or_ignored(page1, engine, header, value):
    conversation = Conversation.objects.create(user=User.objects.get(username="u1"))
    value = f"sessionid={value}" if header == "Cookie" else value
    for path in (f"/api/conversations/{conversation.id}/messages", "/v1/chat/completions", "/api/responses/cancel"):
        answer = page1.post(path, data="{}", content_type="application/json", headers={header: value})
        assert answer.status_code < 500


def test_models_are_listed_in_the_order_in_which_they_were_set_up_whatever_the_collation(page1, monkeypatch):
    monkeypatch.setattr(pool, "REFRESH_S", 0)
    names = ["b", "B", "a-1", "a_1", "a1", "ä", "Z", "é"]
    for name in names:
        Engine.objects.create(name=name, kind="scripted", model=name)
    assert [model["id"] for model in page1.get("/api/models").json()["data"]] == names
