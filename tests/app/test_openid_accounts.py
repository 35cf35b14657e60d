"""Which account a person at the provider has: made, linked, never found by name or address. Costs about 6 s."""

import threading

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client

from streaming.models import AuditEntry, Identity, ServiceAccount
from streaming.store import identities
from tests.app.by_openid import is_in, log_in, said
from tests.app.conftest import Page

pytestmark = pytest.mark.django_db


def test_the_second_time_it_is_the_same_account_whatever_the_person_is_called_by_then(provider, visitor):
    log_in(visitor)
    provider.person |= {"preferred_username": "annie", "email": "annie@example.org"}
    other = Client()
    assert log_in(other).status_code == 302
    assert is_in(other)
    assert User.objects.get().username == "ann"
    assert Identity.objects.get().last_used_at is not None


def test_the_same_name_and_address_at_another_subject_is_another_person(provider, visitor, u1):
    theirs = User.objects.create_user("ann", "ann@example.org", "correct horse battery")
    log_in(visitor)
    assert visitor.get("/api/me").json()["username"] == "ann-2"
    assert not theirs.identities.exists()
    provider.person["sub"] = "ann-2"
    other = Client()
    log_in(other)
    assert other.get("/api/me").json()["username"] == "ann-3"


def test_a_disabled_user_and_a_program_stay_out(provider, visitor):
    log_in(visitor)
    User.objects.update(is_active=False)
    other = Client()
    answer = log_in(other)
    assert (answer.status_code, "switched off" in said(answer)) == (403, True)
    assert not is_in(other)
    User.objects.update(is_active=True)
    ServiceAccount.objects.create(user=User.objects.get(), purpose="a program")
    assert log_in(other).status_code == 403
    assert not is_in(other)
    assert User.objects.count() == 1


def test_unknown_people_get_no_account_where_none_are_given_and_are_told_their_id(provider, visitor, settings, u1):
    settings.OIDC_ACCOUNTS = "off"
    answer = log_in(visitor)
    assert (answer.status_code, "<code>ann-1</code>" in said(answer)) == (403, True)
    assert User.objects.count() == 1
    Identity.objects.create(user=u1, issuer=provider.issuer, subject="ann-1")
    assert log_in(visitor).status_code == 302
    assert visitor.get("/api/me").json()["username"] == "u1"


@pytest.mark.parametrize(
    ("email", "is_confirmed", "gets_one"),
    [
        ("ann@example.org", True, True),
        ("ann@EXAMPLE.org", "true", True),
        ("ann@example.org", False, False),
        ("ann@example.org", None, False),
        ("ann@evil.example", True, False),
        ("ann@sub.example.org", True, False),
        ("ann@example.org@evil.example", True, False),
        (None, True, False),
        (["ann@example.org"], True, False),
    ],
)
def test_by_domain_an_account_needs_a_confirmed_address_of_it(
    provider, visitor, settings, email, is_confirmed, gets_one
):
    settings.OIDC_ACCOUNTS, settings.OIDC_DOMAINS = "domains", ["example.org"]
    provider.person |= {"email": email, "email_verified": is_confirmed}
    assert log_in(visitor).status_code == (302 if gets_one else 403)
    assert User.objects.exists() is gets_one


def test_an_address_that_nobody_confirmed_is_not_kept(provider, visitor):
    provider.person["email_verified"] = False
    log_in(visitor)
    assert User.objects.get().email == ""


def test_what_stands_in_no_token_is_asked_for_and_believed_of_the_same_subject_only(provider, visitor):
    provider.in_userinfo = ("email", "email_verified", "preferred_username")
    log_in(visitor)
    assert (User.objects.get().username, User.objects.get().email) == ("ann", "ann@example.org")
    provider.claims = {"sub": "bob-1"}
    log_in(Client())
    assert set(User.objects.values_list("username", "email")) == {("ann", "ann@example.org"), ("user", "")}


@pytest.mark.parametrize("name", ["", "a b/c", "<b>x</b>", "x" * 500, "名前", None, 7, "(a link)"])
def test_whatever_a_person_is_called_the_account_has_a_name_that_the_site_takes(provider, visitor, name):
    provider.person |= {"preferred_username": name, "email": None}
    assert log_in(visitor).status_code == 302
    User.objects.get().full_clean(exclude=["password"])


def test_staff_that_comes_in_by_the_provider_is_noted_as_by_a_password(provider, visitor):
    log_in(visitor)
    User.objects.update(is_staff=True)
    log_in(Client(REMOTE_ADDR="192.0.2.7"))
    noted = AuditEntry.objects.get(action="signed in")
    assert (noted.actor, noted.address) == ("ann", "192.0.2.7")


def test_an_owner_links_and_unlinks_people_but_no_superuser_and_no_program(provider, visitor, settings, u1):
    settings.OIDC_ACCOUNTS = "off"
    people = {role: User.objects.create_user(role, is_staff=True) for role in ("operator", "owner")}
    for role, user in people.items():
        user.groups.add(Group.objects.get(name=role))
    operator, owner = Page(people["operator"]), Page(people["owner"])
    root = User.objects.create_superuser("root")
    program = ServiceAccount.objects.create(user=User.objects.create_user("program"), purpose="a program")
    add = "/admin/streaming/identity/add/"
    assert operator.get("/admin/streaming/identity/").status_code == 403
    assert operator.post(add, {"user": u1.pk, "subject": "ann-1"}).status_code == 403
    for user in (root, program.user):
        assert "Select a valid choice" in said(owner.post(add, {"user": user.pk, "subject": "ann-1"}))
    assert owner.post(add, {"user": u1.pk, "subject": "ann-1"}).status_code == 302
    assert "has an account already" in said(owner.post(add, {"user": people["owner"].pk, "subject": "ann-1"}))
    assert log_in(visitor).status_code == 302
    assert visitor.get("/api/me").json()["username"] == "u1"
    roots = Identity.objects.create(user=root, issuer=provider.issuer, subject="root-1")
    linked = Identity.objects.get(subject="ann-1")
    assert owner.get("/admin/streaming/identity/?user__password__startswith=a").status_code in (302, 400)
    assert owner.post(f"/admin/streaming/identity/{roots.pk}/delete/", {"post": "yes"}).status_code == 403
    assert owner.post(f"/admin/streaming/identity/{linked.pk}/delete/", {"post": "yes"}).status_code == 302
    assert log_in(Client()).status_code == 403
    noted = AuditEntry.objects.filter(target_kind="identity").values_list("action", "actor", "address")
    assert list(noted) == [("added", "owner", "127.0.0.1"), ("deleted", "owner", "127.0.0.1")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("subjects", "accounts"), [(["one"] * 4, 1), (["one", "two", "three", "four"], 4)])
def test_who_comes_for_the_first_time_in_several_tabs_gets_one_account(subjects, accounts):
    gate, made = threading.Barrier(len(subjects)), []

    def come(subject):
        gate.wait()
        made.append(identities.make_account("https://id.example.org", subject, "ann", ""))
        connection.close()

    threads = [threading.Thread(target=come, args=(subject,)) for subject in subjects]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(made) == 4
    assert len([user for user in made if user]) == User.objects.count() == Identity.objects.count() == accounts
