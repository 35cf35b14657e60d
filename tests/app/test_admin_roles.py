"""Who may do what in the admin, and that it is noted: each role against each page and action."""

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection

from streaming.admin.roles import ROLES
from streaming.audit.address import client_address
from streaming.models import (
    ApiKey,
    AuditEntry,
    Conversation,
    Engine,
    Message,
    Response,
    WebhookDelivery,
    WebhookEndpoint,
)
from streaming.models.audit import AppendOnly
from streaming.store import access, engines, erasure
from tests.app.conftest import Page

pytestmark = pytest.mark.django_db

NOBODY, VIEWER, OPERATOR, OWNER, ROOT = "none", "viewer", "operator", "owner", "superuser"
EVERYBODY = (NOBODY, *ROLES, ROOT)


@pytest.fixture
def world(conversation1, key1, engine):
    """A row of each table, and somebody of each role."""
    people = {role: User.objects.create_user(f"a-{role}", is_staff=True) for role in EVERYBODY}
    for role in ROLES:
        people[role].groups.add(Group.objects.get(name=role))
    User.objects.filter(username="a-superuser").update(is_superuser=True)
    world = {role: Page(User.objects.get(pk=user.pk)) for role, user in people.items()}
    AuditEntry.objects.create(actor="x", action="y")
    return world


def rows():
    response, key, engine = Response.objects.first(), ApiKey.objects.get(), Engine.objects.get()
    people = {user.username: user.pk for user in User.objects.all()}
    audit = AuditEntry.objects.order_by("-id").first()
    return {
        "response": f"/admin/streaming/response/{response.pk}/change/",
        "conversation": f"/admin/streaming/conversation/{response.conversation_id}/change/",
        "key": f"/admin/streaming/apikey/{key.pk}/change/",
        "engine": f"/admin/streaming/engine/{engine.pk}/change/",
        "engine_id": engine.pk,
        "u1": f"/admin/auth/user/{people['u1']}/change/",
        "root": f"/admin/auth/user/{people['a-superuser']}/change/",
        "audit": f"/admin/streaming/auditentry/{audit.pk}/change/",
    }


LOOKS = [
    ("/admin/usage/", VIEWER),
    ("/admin/usage/export.csv", VIEWER),
    ("/admin/streaming/response/", VIEWER),
    ("{response}", VIEWER),
    ("/admin/streaming/conversation/", VIEWER),
    ("{conversation}", VIEWER),
    ("/admin/streaming/apikey/", VIEWER),
    ("{key}", VIEWER),
    ("/admin/streaming/engine/", VIEWER),
    ("{engine}", VIEWER),
    ("/admin/streaming/engine/add/", OWNER),
    ("/admin/streaming/auditentry/", OWNER),
    ("{audit}", OWNER),
    ("/admin/auth/user/", OWNER),
    ("/admin/auth/user/add/", OWNER),
    ("{u1}", OWNER),
    ("{root}", OWNER),
    ("/admin/auth/group/", ROOT),
    ("/admin/streaming/response/add/", "nobody at all"),
    ("/admin/streaming/auditentry/add/", "nobody at all"),
    ("/admin/streaming/apikey/add/", OWNER),
    ("/admin/streaming/serviceaccount/", VIEWER),
    ("/admin/streaming/serviceaccount/add/", OWNER),
]


@pytest.mark.parametrize(("path", "least"), LOOKS)
def test_each_role_sees_its_pages_and_no_others(world, path, least):
    path = path.format(**rows())
    first = EVERYBODY.index(least) if least in EVERYBODY else len(EVERYBODY)
    may = {role: world[role].get(path).status_code for role in EVERYBODY}
    assert may == {role: 200 if n >= first else 403 for n, role in enumerate(EVERYBODY)}, path


ACTIONS = [
    ("/admin/streaming/engine/{engine_id}/drain/now/", {}, OPERATOR),
    ("/admin/streaming/engine/{engine_id}/give-back/now/", {}, OPERATOR),
    ("{engine}", {}, OWNER),
    ("{u1}", {}, OWNER),
    ("{root}", {}, ROOT),
    ("{response}", {}, "nobody at all"),
    ("{conversation}", {}, "nobody at all"),
    ("{key}", {}, "nobody at all"),
    ("{audit}", {}, "nobody at all"),
]


@pytest.mark.parametrize(("path", "form", "least"), ACTIONS)
def test_each_role_does_what_it_may_and_nothing_else(world, path, form, least):
    path = path.format(**rows())
    first = EVERYBODY.index(least) if least in EVERYBODY else len(EVERYBODY)
    may = {role: world[role].post(path, form).status_code != 403 for role in EVERYBODY}
    assert may == {role: n >= first for n, role in enumerate(EVERYBODY)}, path


@pytest.mark.parametrize("role", EVERYBODY)
def test_keys_are_revoked_by_owners(world, role):
    key = ApiKey.objects.get()
    world[role].post("/admin/streaming/apikey/", {"action": "revoke", "_selected_action": [key.pk]})
    key.refresh_from_db()
    assert (key.revoked_at is not None) == (role in (OWNER, ROOT))
    entries = AuditEntry.objects.filter(action="revoked").values_list("actor", "target_kind", "target_id")
    assert list(entries) == ([(f"a-{role}", "apikey", str(key.pk))] if role in (OWNER, ROOT) else [])


@pytest.mark.parametrize("table", ["response", "conversation", "auditentry", "apikey"])
@pytest.mark.parametrize("role", [OWNER, ROOT])
def test_nobody_deletes_what_happened(world, table, role):
    path = rows()["audit" if table == "auditentry" else "key" if table == "apikey" else table]
    assert world[role].post(path.replace("change", "delete"), {"post": "yes"}).status_code == 403
    html = world[role].get(f"/admin/streaming/{table}/").content.decode()
    assert "delete_selected" not in html


def test_nobody_raises_themselves(world):
    """An owner gives roles, no more; what a superuser has, only a superuser gives."""
    owner = User.objects.get(username="a-owner")
    strong = Group.objects.create(name="strong")
    page = f"/admin/auth/user/{owner.pk}/change/"
    html = world[OWNER].get(page).content.decode()
    assert "is_superuser" not in html
    assert "user_permissions" not in html
    assert ">strong<" not in html
    form = {"username": "a-owner", "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    assert world[OWNER].post(page, {**form, "groups": [strong.pk]}).status_code == 200  # the form again, with an error
    assert world[OWNER].post(page, {**form, "groups": [Group.objects.get(name="owner").pk]}).status_code == 302
    owner.refresh_from_db()
    assert not owner.is_superuser
    assert [group.name for group in owner.groups.all()] == ["owner"]
    root = User.objects.get(username="a-superuser")
    answer = world[OWNER].post(f"/admin/auth/user/{root.pk}/password/", {"password1": "x" * 20, "password2": "x" * 20})
    assert answer.status_code == 403


def test_changes_are_noted_with_names_of_fields_and_never_values(world):
    user = User.objects.get(username="u1")
    form = {"username": "u1", "email": "new@example.org", "is_active": "on"}
    assert world[OWNER].post(f"/admin/auth/user/{user.pk}/change/", form).status_code == 302
    secret = "a-very-secret-word-9"
    form = {"usable_password": "true", "password1": secret, "password2": secret}
    assert world[OWNER].post(f"/admin/auth/user/{user.pk}/password/", form).status_code == 302
    entries = AuditEntry.objects.filter(actor="a-owner", target_id=str(user.pk)).order_by("id")
    assert [entry.action for entry in entries] == ["changed", "changed"]
    assert entries[0].detail["fields"] == ["Email address"]
    assert secret not in "".join(str(entry.detail) for entry in AuditEntry.objects.all())
    assert "new@example.org" not in str(entries[0].detail)


def test_an_audit_entry_is_never_changed_or_deleted_by_code_either(world):
    entry = AuditEntry.objects.order_by("id").first()
    for change in (entry.save, entry.delete, AuditEntry.objects.all().delete, AuditEntry.objects.filter().update):
        with pytest.raises(AppendOnly):
            change()


def test_an_entry_outlives_who_it_is_about(world):
    user = User.objects.get(username="a-owner")
    assert AuditEntry.objects.filter(actor="a-owner", action="signed in").exists()
    user.delete()
    assert AuditEntry.objects.filter(actor="a-owner", actor_id__isnull=False).exists()


def test_the_log_is_read_by_who_and_by_what(world):
    for n in range(55):
        AuditEntry.objects.create(actor=f"p{n % 2}", action="did", target_kind="engine", target_id=str(n))
    html = world[OWNER].get("/admin/streaming/auditentry/?actor=p1").content.decode()
    assert "27 shown" in html
    assert "p0" not in html
    html = world[OWNER].get("/admin/streaming/auditentry/?q=54").content.decode()
    assert "1 shown" in html
    assert 'rel="next"' in world[OWNER].get("/admin/streaming/auditentry/").content.decode()


def test_the_address_is_the_proxys_word_only_where_it_can_be_believed(rf, settings):
    request = rf.get("/", REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR="1.2.3.4, 5.6.7.8")
    assert client_address(request) == "10.0.0.1"
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert client_address(request) == "5.6.7.8"
    assert client_address(rf.get("/", HTTP_X_FORWARDED_FOR="<script>")) == ""


def test_roles_are_made_by_migrate_and_put_right_again():
    group = Group.objects.get(name="viewer")
    group.permissions.clear()
    Group.objects.filter(name="operator").delete()
    ContentType.objects.clear_cache()
    call_command("migrate", verbosity=0)
    assert Group.objects.get(name="viewer").permissions.filter(codename="view_response").exists()
    codes = set(Group.objects.get(name="operator").permissions.values_list("codename", flat=True))
    assert {"stop_response", "operate_engine"} <= codes
    assert not {code for code in codes if code.startswith(("add_", "change_", "delete_"))}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by_action", [True, False], ids=["by the list's action", "by its form"])
def test_who_is_deleted_in_the_admin_is_emptied_before_the_transaction_that_deletes_them(world, monkeypatch, by_action):
    gone = User.objects.create_user("goes")
    conversation = Conversation.objects.create(user=gone, title="a secret")
    Message.objects.create(conversation=conversation, role="user", text="another")
    Response.objects.create(user=gone, purpose="api", dialect="openai_chat", model="m", policy="abort")
    access.new_key(gone, "theirs")
    inside = []

    def empty(user):
        inside.append((user.username, connection.in_atomic_block))
        emptied(user)

    emptied = erasure.empty
    monkeypatch.setattr(erasure, "empty", empty)
    action = {"action": "delete_selected", "_selected_action": gone.pk, "post": "yes"}
    path = "/admin/auth/user/" if by_action else f"/admin/auth/user/{gone.pk}/delete/"
    asked = world[ROOT].post(path, {**action, "post": ""}) if by_action else world[ROOT].get(path)
    page = asked.content.decode()
    assert "goes" in page
    assert "secret" not in page
    for role in (OPERATOR, ROOT):
        world[role].post(path, action if by_action else {"post": "yes"})
    assert inside == [("goes", False)]
    assert not User.objects.filter(username="goes").exists()


@pytest.mark.django_db(transaction=True)
def test_an_engine_that_is_deleted_in_the_admin_is_named_by_nothing_before_that(world, monkeypatch):
    engine = Engine.objects.create(name="old", kind="scripted", model="m", context_tokens=9, slots=1)
    Response.objects.create(purpose="api", dialect="openai_chat", model="m", policy="abort", engine=engine)
    inside, take_off = [], engines.take_off

    def watched(row):
        inside.append(connection.in_atomic_block)
        take_off(row)
        assert not Response.objects.filter(engine=row).exists()

    monkeypatch.setattr(engines, "take_off", watched)
    world[OWNER].post(f"/admin/streaming/engine/{engine.pk}/delete/", {"post": "yes"})
    assert inside == [False]
    assert not Engine.objects.filter(name="old").exists()


def test_an_endpoint_of_webhooks_goes_with_its_deliveries(world):
    endpoint = WebhookEndpoint.objects.create(name="billing", url="https://billing.example/")
    WebhookDelivery.objects.create(endpoint=endpoint, response_id="resp_1", payload={})
    path = f"/admin/streaming/webhookendpoint/{endpoint.pk}/delete/"
    assert "Webhook deliveries: 1" in world[OWNER].get(path).content.decode()
    world[OPERATOR].post(path, {"post": "yes"})
    assert WebhookDelivery.objects.count() == 1
    world[OWNER].post(path, {"post": "yes"})
    assert not WebhookEndpoint.objects.exists()
    assert not WebhookDelivery.objects.exists()
