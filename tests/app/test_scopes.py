"""What a key may do is what its scopes say, on every route and in every dialect; who has nothing but keys."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from streaming.api import scopes
from streaming.api.root import v1
from streaming.models import ApiKey, AuditEntry, Response, ServiceAccount
from streaming.models.access import MODELS_READ, RESPONSES_READ, RESPONSES_WRITE, SCOPES
from streaming.store import access
from tests.app.conftest import Page

pytestmark = pytest.mark.django_db(transaction=True)

BODIES = {
    "/v1/chat/completions": {"model": "demo", "messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"model": "demo", "input": "hi"},
    "/v1/messages": {"model": "demo", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
}


def client_with(user, *granted):
    key = access.new_key(user, scopes=granted)[1]
    return Client(headers={"Authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"})


@pytest.mark.parametrize("path", BODIES)
def test_a_key_that_may_only_read_starts_nothing_and_is_told_so_in_the_dialects_shape(u1, path):
    client = client_with(u1, MODELS_READ, RESPONSES_READ)
    answer = client.post(path, BODIES[path], content_type="application/json")
    assert answer.status_code == 403
    error = answer.json()["error"]
    assert error["type"] == "permission_error"
    assert RESPONSES_WRITE in error["message"]
    assert (answer.json().get("type"), error["code"]) == ("error" if path == "/v1/messages" else None, "scope")
    stored = Response.objects.get()
    assert (stored.end_state, stored.end_reason, stored.api_key.user) == ("rejected", "scope", u1)


def operations():
    for _, router in v1._routers:
        for path, view in router.path_operations.items():
            ids = {"response_id": "resp_", "file_id": "file-", "batch_id": "batch_"}
            real = "/v1" + path.format(**{name: prefix + "0" * 26 for name, prefix in ids.items()})
            yield from ((real, method.lower()) for operation in view.operations for method in operation.methods)


def test_the_operations_below_are_the_apis():
    assert {("/v1/responses", "post"), ("/v1/models", "get"), ("/v1/diagnostics/stream", "get")} < set(operations())


@pytest.mark.parametrize(("path", "method"), sorted(operations()))
def test_every_route_wants_exactly_one_scope(u1, path, method):
    wanted = scopes.needed(method.upper(), path)
    others = [scope for scope in SCOPES if scope != wanted]
    ask = {"data": json.dumps(BODIES.get(path, {})), "content_type": "application/json"} if method == "post" else {}
    refused = getattr(client_with(u1, *others), method)(path, **ask)
    assert refused.status_code == 403
    assert wanted in refused.json()["error"]["message"]
    if path not in BODIES:  # those would start
        assert getattr(client_with(u1, wanted), method)(path, **ask).status_code != 403


def test_the_scopes_of_each_kind_of_request():
    assert scopes.needed("GET", "/v1/models") == MODELS_READ
    assert scopes.needed("POST", "/v1/models") == RESPONSES_WRITE
    assert scopes.needed("GET", "/v1/responses/resp_1/stream") == RESPONSES_READ
    assert scopes.needed("DELETE", "/v1/responses/resp_1") == RESPONSES_WRITE
    assert scopes.needed("GET", "/v1/modelsx") == RESPONSES_READ


@pytest.mark.parametrize("wrong", [(), ("admin",), (*SCOPES, "models:write")])
def test_no_key_has_a_scope_that_there_is_not(u1, wrong):
    with pytest.raises(ValueError, match="models:read, responses:read, responses:write"):
        access.new_key(u1, scopes=wrong)
    assert not ApiKey.objects.exists()


def a_day_to_come():
    """Not tomorrow, which may begin before anybody looks at it."""
    return (timezone.now() + timedelta(days=2)).date()


def test_the_command_gives_scopes_and_an_end(db, capsys):
    call_command("create_api_key", "reader", scopes="responses:read,models:read", expires="90d")
    found = access.find_key(capsys.readouterr().out.strip()).api_key
    assert found.scopes == "models:read responses:read"
    expires_at = ApiKey.objects.get(pk=found.pk).expires_at
    assert timedelta(days=89) < expires_at - timezone.now() <= timedelta(days=90)
    day = a_day_to_come()
    call_command("create_api_key", "reader", expires=str(day))
    assert ApiKey.objects.latest("pk").expires_at.date() == day


@pytest.mark.parametrize(
    "wrong",
    [{"scopes": "all"}, *({"expires": day} for day in ("0d", "2026-01-01", "2026-02-31", "soon"))],
)
def test_the_command_says_what_is_wrong_in_one_line(db, wrong):
    with pytest.raises(CommandError, match=f"--{next(iter(wrong))}") as refused:
        call_command("create_api_key", "reader", **wrong)
    assert "\n" not in str(refused.value)
    assert not ApiKey.objects.exists()


@pytest.fixture
def owner(db):
    user = User.objects.create_user("olga", is_staff=True)
    user.groups.add(Group.objects.get(name="owner"))
    return user


def make_account(owner):
    return Page(owner).post("/admin/streaming/serviceaccount/add/", {"username": "indexer", "purpose": "search"})


def test_a_service_account_has_keys_and_no_way_to_log_in(owner, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    assert make_account(owner).status_code == 302
    robot = ServiceAccount.objects.get().user
    assert not robot.has_usable_password()
    robot.set_password("correct horse battery")
    robot.save()
    client = Client()
    assert client.post("/login/", {"username": "indexer", "password": "correct horse battery"}).status_code == 200
    assert client.get(f"/login/{access.issue_login_token(robot, timedelta(minutes=5))}").status_code == 410
    assert client.get("/api/me").status_code == 401
    assert access.find_key(access.issue_key(robot)).state == "valid"
    assert AuditEntry.objects.filter(action="added", target_kind="serviceaccount").exists()


def test_no_persons_account_becomes_a_programs(owner, u1):
    answer = Page(owner).post("/admin/streaming/serviceaccount/add/", {"username": "u1", "purpose": "x"})
    assert (answer.status_code, ServiceAccount.objects.count()) == (200, 0)
    assert "there is a user u1 already" in answer.content.decode()
    make_account(owner)
    account = ServiceAccount.objects.get()
    assert Page(owner).post(f"/admin/streaming/serviceaccount/{account.pk}/delete/", {"post": "yes"}).status_code == 403


def test_staff_makes_keys_of_programs_and_of_itself_only_and_sees_each_once(owner, u1):
    make_account(owner)
    robot = ServiceAccount.objects.get().user
    page = Page(owner)
    day = a_day_to_come()
    form = {"name": "nightly", "scopes": ["responses:write"], "expires_on": str(day)}
    refused = page.post("/admin/streaming/apikey/add/", {**form, "user": u1.pk})
    assert (refused.status_code, ApiKey.objects.count()) == (200, 0)
    shown = page.post("/admin/streaming/apikey/add/", {**form, "user": robot.pk})
    row = ApiKey.objects.get()
    key = shown.content.decode().split("<code>")[1].split("</code>")[0]
    found = access.find_key(key)
    assert (found.state, found.api_key.pk, found.api_key.scopes) == ("valid", row.pk, "responses:write")
    assert row.expires_at.date() == day
    assert key not in str([vars(cookie) for cookie in page.cookies.values()])
    assert key not in page.get("/admin/streaming/apikey/").content.decode()
    entry = AuditEntry.objects.get(action="added", target_kind="apikey")
    assert (entry.actor, entry.detail["scopes"]) == ("olga", "responses:write")
    assert key not in str(entry.detail)
    assert page.post("/admin/streaming/apikey/add/", {**form, "user": owner.pk}).status_code == 200
    assert ApiKey.objects.filter(user=owner).count() == 1


@pytest.mark.parametrize("wrong", [{"scopes": ["admin"]}, {"scopes": []}, {"expires_on": "2026-01-01"}])
def test_the_form_of_a_key_refuses_what_makes_no_sense(owner, wrong):
    form = {"user": owner.pk, "name": "n", "scopes": ["models:read"]} | wrong
    answer = Page(owner).post("/admin/streaming/apikey/add/", form)
    assert (answer.status_code, ApiKey.objects.count()) == (200, 0)
    assert next(iter(wrong)) in answer.context["adminform"].form.errors
