"""Who makes an account by oneself: nobody, anybody, or whoever was invited, once."""

import threading
from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from streaming.models import AuditEntry, Invitation
from streaming.store import invitations
from tests.app.conftest import Page

pytestmark = pytest.mark.django_db
FORM = {"username": "newcomer", "password1": "correct horse battery", "password2": "correct horse battery"}


@pytest.fixture(autouse=True)
def quick_hashes(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def invited(settings):
    settings.SIGNUP = "invite"
    return f"/signup/{invitations.issue(None, timedelta(days=7))[1]}"


def is_in(client):
    return client.get("/api/me").status_code == 200


def test_off_there_is_no_such_page_and_no_link_to_it(client):
    assert client.get("/signup/").status_code == 404
    assert client.post("/signup/", FORM).status_code == 404
    assert "/signup/" not in client.get("/login/").content.decode()
    assert not User.objects.exists()


def test_off_an_invitation_says_so_is_not_used_up_and_none_is_made_in_the_admin(client, settings):
    row, token = invitations.issue(None, timedelta(days=7))
    for link in (f"/signup/{token}", f"/signup/{'k' * 43}"):
        for answer in (client.get(link), client.post(link, FORM)):
            assert answer.status_code == 403
            assert "Sign-up is switched off here" in answer.content.decode()
    assert not User.objects.exists()
    row.refresh_from_db()
    assert row.used_at is None
    owner = Page(User.objects.create_superuser("owner"))
    form = {"note": "Ann", "days": 7}
    refused = owner.post("/admin/streaming/invitation/add/", form).content.decode()
    assert "SIGNUP is off: nobody can use an invitation; set it to invite or open" in refused
    assert Invitation.objects.count() == 1
    for settings.SIGNUP in ("invite", "open"):
        assert "Copy it now" in owner.post("/admin/streaming/invitation/add/", form).content.decode()


def test_open_anybody_makes_an_account_and_is_in(client, settings):
    settings.SIGNUP = "open"
    assert "/signup/" in client.get("/login/").content.decode()
    page = client.get("/signup/")
    assert page.status_code == 200
    assert "<script" not in page.content.decode()
    answer = client.post("/signup/", {**FORM, "email": "n@example.org"})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert is_in(client)
    user = User.objects.get(username="newcomer")
    assert (user.email, user.check_password(FORM["password1"])) == ("n@example.org", True)
    assert AuditEntry.objects.get(action="signed up").actor == "newcomer"
    assert client.get("/signup/").status_code == 302


def test_nobody_gives_themselves_rights(client, settings):
    settings.SIGNUP = "open"
    client.post("/signup/", {**FORM, "is_staff": "on", "is_superuser": "on", "groups": "1", "id": "1"})
    user = User.objects.get(username="newcomer")
    assert (user.is_staff, user.is_superuser, user.groups.count()) == (False, False, 0)


@pytest.mark.parametrize(
    "wrong",
    [{"password2": "another horse"}, {"password1": "short", "password2": "short"}, {"username": "u1"}, {"email": "x"}],
)
def test_what_makes_no_sense_makes_no_account_and_uses_no_invitation_up(u1, client, invited, wrong):
    assert client.post(invited, FORM | wrong).status_code == 200
    assert User.objects.count() == 1
    assert client.post(invited, FORM).status_code == 302


def test_by_invitation_only_a_good_link_works_and_once(client, invited):
    assert client.get("/signup/").status_code == 404
    assert client.head(invited).status_code in {200, 405}
    assert client.get(invited).status_code == 200
    assert client.post(invited, FORM).status_code == 302
    assert is_in(client)
    second = Client()
    assert second.get(invited).status_code == 410
    assert second.post(invited, {**FORM, "username": "late"}).status_code == 410
    row = Invitation.objects.get()
    assert (row.used_by.username, row.used_at is not None) == ("newcomer", True)


def test_an_expired_invitation_and_garbage_make_no_account(client, invited):
    Invitation.objects.update(expires_at=timezone.now())
    for n, path in enumerate((invited, "/signup/x", "/signup/%00", f"/signup/{'k' * 43}", "/signup/' OR 1=1--")):
        assert client.post(path, FORM, REMOTE_ADDR=f"192.0.2.{n}").status_code == 410
    assert not User.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_at_the_same_time_one_gets_the_account(invited):
    gate, codes = threading.Barrier(2), []

    def take(name):
        client = Client(raise_request_exception=False)
        gate.wait()
        codes.append(client.post(invited, {**FORM, "username": name}).status_code)
        connection.close()

    threads = [threading.Thread(target=take, args=(name,)) for name in ("one", "two")]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(codes) == [302, 410]
    assert User.objects.count() == 1


def test_invitations_are_not_guessed_and_accounts_not_made_in_heaps(settings, invited):
    guesses = [Client().get(f"/signup/{'k' * 43}").status_code for _ in range(6)]
    assert guesses == [410] * 5 + [429]
    assert "kkk" not in str(AccessAttempt.objects.values_list())
    settings.SIGNUP = "open"
    made = [Client().post("/signup/", {**FORM, "username": f"n{n}"}) for n in range(6)]
    assert [answer.status_code for answer in made] == [302] * 5 + [429]
    assert int(made[-1]["Retry-After"]) > 0


def test_a_form_of_another_site_makes_no_account(anon, settings):
    settings.SIGNUP = "open"
    assert anon.post("/signup/", FORM).status_code == 403


def test_the_database_holds_no_invitation_that_could_be_used(invited):
    token = invited.rpartition("/")[2]
    dump = "".join(str(model.objects.values_list()[:]) for model in apps.get_models())
    assert token not in dump
    assert Invitation.objects.get().sha256 in dump


def test_the_command_prints_the_path_alone(client, settings, capsys):
    with pytest.raises(CommandError, match="SIGNUP is off"):
        call_command("invite")
    settings.SIGNUP = "invite"
    call_command("invite", days=1, note="for Ann")
    assert client.get(capsys.readouterr().out.removesuffix("\n")).status_code == 200
    with pytest.raises(CommandError, match="--days must be from 1 to 90, not 91"):
        call_command("invite", days=91)


def test_an_owner_invites_and_takes_back_in_the_admin_and_a_viewer_does_not(settings):
    settings.SIGNUP = "invite"
    people = {role: User.objects.create_user(role, is_staff=True) for role in ("viewer", "owner")}
    for role, user in people.items():
        user.groups.add(Group.objects.get(name=role))
    viewer, owner = Page(people["viewer"]), Page(people["owner"])
    form = {"note": "Ann", "days": 7}
    assert viewer.post("/admin/streaming/invitation/add/", form).status_code == 403
    shown = owner.post("/admin/streaming/invitation/add/", form).content.decode()
    path = shown.split("<code>")[1].split("</code>")[0].removeprefix("http://testserver")
    row = Invitation.objects.get()
    assert (row.created_by, row.note) == (people["owner"], "Ann")
    assert Client().get(path).status_code == 200
    assert path not in owner.get("/admin/streaming/invitation/").content.decode()
    assert owner.get(f"/admin/streaming/invitation/{row.pk}/change/").status_code == 200
    owner.post(f"/admin/streaming/invitation/{row.pk}/delete/", {"post": "yes"})
    assert Client().get(path).status_code == 410
    actions = AuditEntry.objects.filter(target_kind="invitation").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["added", "deleted"]
