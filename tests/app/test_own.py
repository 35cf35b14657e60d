"""What a person sees of their own use and API keys, and that nobody else does."""

import threading
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from streaming.models import ApiKey, AuditEntry, Response
from streaming.models.access import SCOPES
from streaming.store import access, own_usage, usage
from tests.app.conftest import Page

pytestmark = pytest.mark.django_db


def make(page, **body):
    return page.post("/api/me/keys", body, content_type="application/json")


def test_a_key_is_shown_once_works_and_is_stored_as_its_hash(page1, u1):
    made = make(page1, name=" laptop ", expires_in_days=30)
    assert made.status_code == 201
    key = made.json()["key"]
    assert access.find_key(key).state == "valid"
    assert access.find_key(key).api_key.user == u1
    listed = page1.get("/api/me/keys")
    assert key not in listed.content.decode()
    (row,) = listed.json()["data"]
    assert (row["name"], row["prefix"], row["revoked_at"]) == ("laptop", key[:9], None)
    stored = ApiKey.objects.get()
    assert key not in str(vars(stored))
    assert timedelta(days=29) < stored.expires_at - timezone.now() <= timedelta(days=30)
    ever = make(page1, name="for ever", scopes=["models:read"]).json()
    assert (ever["expires_at"], ever["scopes"]) == (None, ["models:read"])
    assert row["scopes"] == list(SCOPES)


def test_what_a_person_does_with_keys_is_in_the_audit_log_once(page1, u1):
    made = make(page1, name="laptop").json()
    page1.delete(f"/api/me/keys/{made['id']}")
    page1.delete(f"/api/me/keys/{made['id']}")
    entries = AuditEntry.objects.filter(target_kind="apikey", target_id=str(made["id"])).order_by("id")
    said = [(entry.actor, entry.action, entry.address) for entry in entries]
    assert said == [("u1", "added", "127.0.0.1"), ("u1", "revoked", "127.0.0.1")]
    assert made["key"] not in str([entry.detail for entry in entries])


def test_a_key_is_revoked_by_its_owner_only(page1, page2):
    made = make(page1, name="laptop").json()
    theirs, unknown = page2.delete(f"/api/me/keys/{made['id']}"), page2.delete("/api/me/keys/999999")
    assert (theirs.status_code, theirs.content) == (unknown.status_code, unknown.content)
    assert theirs.status_code == 404
    assert page2.get("/api/me/keys").json() == {"data": []}
    assert access.find_key(made["key"]).state == "valid"
    assert page1.delete(f"/api/me/keys/{made['id']}").status_code == 204
    assert access.find_key(made["key"]).state == "key_revoked"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": "  "}, "name"),
        ({"name": "a", "expires_in_days": 0}, "expires_in_days"),
        ({"name": "a", "expires_in_days": 3651}, "expires_in_days"),
        ({"name": "a", "expires_in_days": "9"}, "expires_in_days"),
        ({"name": "a", "user": 1}, "user"),
        ({"name": "a", "scopes": []}, "scopes"),
        ({"name": "a", "scopes": ["admin"]}, "scopes.0"),
    ],
)
def test_a_key_that_makes_no_sense_is_a_400_that_names_the_field(page1, body, param):
    refused = make(page1, **body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


@pytest.fixture
def two_keys(monkeypatch):
    """As many as a user may have."""
    monkeypatch.setattr(access, "LIVE_KEYS_MAX", 2)


def test_there_is_an_end_to_keys_that_work(page1, page2, two_keys):
    first = make(page1, name="1").json()
    make(page1, name="2")
    refused = make(page1, name="3")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "too_many_keys")
    assert make(page2, name="1").status_code == 201
    page1.delete(f"/api/me/keys/{first['id']}")
    assert make(page1, name="3").status_code == 201


def test_it_is_the_same_end_for_the_command_and_the_admin(two_keys, capsys):
    root = User.objects.create_superuser("root")
    page = Page(root)
    form = {"user": root.pk, "name": "n", "scopes": ["models:read"]}
    call_command("create_api_key", "root")
    assert "<code>sk-" in page.post("/admin/streaming/apikey/add/", form).content.decode()
    says = "root has 2 keys that work, which is the most; revoke one first"
    with pytest.raises(CommandError, match=f"^{says}$"):
        call_command("create_api_key", "root")
    assert says in page.post("/admin/streaming/apikey/add/", form).content.decode()
    assert make(page, name="3").status_code == 409
    ApiKey.objects.filter(name="n").update(expires_at=timezone.now())
    call_command("create_api_key", "root")
    assert (ApiKey.objects.count(), AuditEntry.objects.filter(action="added").count()) == (3, 1)


@pytest.mark.django_db(transaction=True)
def test_many_who_make_keys_at_once_make_no_more_than_there_may_be(u1, two_keys):
    gate, made = threading.Barrier(8), []

    def make_one():
        gate.wait()
        try:
            made.append(access.issue_key(u1))
        except access.TooManyKeys:
            made.append(None)
        connection.close()

    threads = [threading.Thread(target=make_one) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert (len(made), len(list(filter(None, made))), ApiKey.objects.count()) == (8, 2, 2)


def test_keys_and_usage_need_a_session_and_a_csrf_token(page1, anon, key1):
    for path in ("/api/me/keys", "/api/me/usage"):
        assert anon.get(path).status_code == 401
        assert anon.get(path, HTTP_AUTHORIZATION=f"Bearer {key1}").status_code == 401
    del page1.defaults["HTTP_X_CSRFTOKEN"]
    assert make(page1, name="a").status_code == 403
    assert page1.delete(f"/api/me/keys/{ApiKey.objects.get().pk}").status_code == 403
    assert ApiKey.objects.filter(revoked_at__isnull=True).count() == 1


def answered(user, days_ago, model="demo", **fields):
    ended = {"state": "ended", "end_state": "completed", "end_reason": "stop", "purpose": "chat"} | fields
    made = Response.objects.create(
        user=user, model=model, prompt_tokens=10, completion_tokens=5, generated_tokens=5, **ended
    )
    Response.objects.filter(pk=made.pk).update(created_at=timezone.now() - timedelta(days=days_ago))
    return made


def test_usage_is_summed_by_day_and_model_from_rollups_and_what_is_not_rolled_up_yet(noon, page1, page2, u1, u2):
    today = timezone.now().date()
    for days_ago in (0, 0, 1, 5, 40):
        answered(u1, days_ago)
    answered(u1, 0, "other", purpose="api")
    answered(u1, 0, purpose="title")
    answered(u1, 5, end_state="rejected", end_reason="overloaded")
    answered(u1, 0, state="running", end_state=None, end_reason="")
    answered(u2, 5, "theirs")
    for days_ago in (5, 40):
        usage.roll_up(today - timedelta(days=days_ago))
    Response.objects.filter(created_at__lt=timezone.now() - timedelta(days=3)).delete()  # expired; the sums stay
    seen = page1.get("/api/me/usage").json()["data"]
    days = [(row["day"], row["model"], row["answers"], row["prompt_tokens"], row["completion_tokens"]) for row in seen]
    assert days == [
        (str(today), "demo", 3, 30, 15),
        (str(today), "other", 1, 10, 5),
        (str(today - timedelta(days=1)), "demo", 1, 10, 5),
        (str(today - timedelta(days=5)), "demo", 1, 10, 5),
    ]
    assert len(page1.get("/api/me/usage?days=60").json()["data"]) == 5
    assert len(page1.get("/api/me/usage?days=1").json()["data"]) == 2
    assert [row["model"] for row in page2.get("/api/me/usage").json()["data"]] == ["theirs"]
    for days in ("0", "367", "many"):
        assert page1.get(f"/api/me/usage?days={days}").json()["error"]["param"] == "days"


def test_usage_is_two_questions_however_much_there_is(u1, django_assert_num_queries):
    for days_ago in range(4):
        answered(u1, days_ago)
    with django_assert_num_queries(2):
        own_usage.of_days(u1, timezone.now().date(), 30)
