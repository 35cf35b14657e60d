"""A forgotten password: a link by mail to who has an address, and nothing to be learnt for anybody else."""

import re
from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from streaming.models import AuditEntry, ServiceAccount
from streaming.store import access
from streaming.views import password_reset

pytestmark = pytest.mark.django_db(transaction=True)
NEW = {"new_password1": "a new and longer one", "new_password2": "a new and longer one"}


@pytest.fixture
def ann(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.EMAIL_HOST = "mail.example.org"
    return User.objects.create_user("ann", "ann@example.org", "correct horse battery")


def ask(email, address="192.0.2.1"):
    answer = Client(REMOTE_ADDR=address).post("/password-reset/", {"email": email})
    password_reset.post.submit(lambda: None).result(20)  # one worker: what was before is done
    return answer


def link():
    return re.search(r"http://testserver(/password-reset/\S+)", mail.outbox[-1].body)[1]


def test_the_link_of_the_mail_sets_a_new_password_once_and_ends_the_sessions(ann):
    inside = Client()
    inside.force_login(ann)
    assert ask("ann@example.org").status_code == 302
    path, browser = link(), Client()
    form = browser.get(path, follow=True)
    assert "token" not in form.redirect_chain[-1][0]
    assert "<script" not in form.content.decode()
    answer = browser.post(form.redirect_chain[-1][0], NEW)
    assert (answer.status_code, answer["Location"]) == (302, "/password-reset/done/")
    ann.refresh_from_db()
    assert ann.check_password(NEW["new_password1"])
    assert inside.get("/api/me").status_code == 401
    assert AuditEntry.objects.get(action="chose a new password").actor == "ann"
    again = Client().get(path, follow=True)
    assert "does not work any more" in again.content.decode()


def test_who_has_an_account_is_not_told_and_only_people_with_a_password_get_mail(ann):
    nobody = ask("nobody@example.org")
    User.objects.create_user("linked", "linked@example.org")
    User.objects.create_user("gone", "gone@example.org", "x", is_active=False)
    robot = User.objects.create_user("robot", "robot@example.org", "x")
    ServiceAccount.objects.create(user=robot, purpose="p")
    answers = [
        nobody,
        *(ask(f"{name}@example.org", f"192.0.2.{n}") for n, name in enumerate(("linked", "gone", "robot"))),
    ]
    assert mail.outbox == []
    answers.append(ask("ann@example.org"))
    assert {(answer.status_code, answer["Location"], answer.content) for answer in answers} == {
        (302, "/password-reset/sent/", b"")
    }
    assert [message.to for message in mail.outbox] == [["ann@example.org"]]


def test_nobody_is_flooded_with_mail_and_the_link_is_nowhere_but_in_it(ann):
    assert [ask("ann@example.org").status_code for _ in range(6)] == [302] * 5 + [429]
    assert len(mail.outbox) == 5
    assert link() not in str(AccessAttempt.objects.values_list())


def test_a_forged_host_is_not_in_a_mail(ann):
    answer = Client(raise_request_exception=False).post(
        "/password-reset/", {"email": "ann@example.org"}, headers={"host": "evil.example"}
    )
    password_reset.post.submit(lambda: None).result(20)
    assert (answer.status_code, mail.outbox) == (400, [])


def test_without_mail_the_page_says_whom_to_ask(ann, settings):
    settings.EMAIL_HOST = ""
    for answer in (Client().get("/password-reset/"), ask("ann@example.org")):
        assert "Ask its administrator" in answer.content.decode()
    assert mail.outbox == []


def test_an_old_link_a_weak_password_and_garbage_change_nothing(ann, settings):
    ask("ann@example.org")
    path = link()
    browser = Client()
    chosen = browser.get(path, follow=True).redirect_chain[-1][0]
    assert browser.post(chosen, {"new_password1": "short", "new_password2": "short"}).status_code == 200
    for garbage in ("/password-reset/x/y/", "/password-reset/MQ/%00/", "/password-reset/é/set-password/"):
        assert "does not work any more" in Client().get(garbage, follow=True).content.decode()
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert "does not work any more" in Client().get(path, follow=True).content.decode()
    ann.refresh_from_db()
    assert ann.check_password("correct horse battery")


def test_a_key_stays_for_programs_do_not_forget(ann):
    key = access.new_key(ann, "k", timedelta(days=1))[1]
    ask("ann@example.org")
    browser = Client()
    browser.post(browser.get(link(), follow=True).redirect_chain[-1][0], NEW)
    assert access.find_key(key).state == "valid"
