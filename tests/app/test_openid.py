"""Logging in by an OpenID provider, there and back; a real one on the loopback, the browser Django's client. 8 s."""

from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test.utils import CaptureQueriesContext

from streaming.models import AuditEntry
from tests.app.by_openid import is_in, log_in, said, sent_to, through

pytestmark = pytest.mark.django_db


def test_off_there_is_no_such_page_and_no_button(visitor):
    assert "/login/oidc/" not in said(visitor.get("/login/"))
    assert [visitor.get(path).status_code for path in ("/login/oidc/", "/login/oidc/back/")] == [404, 404]


def test_a_person_comes_in_with_an_account_of_their_own_and_back_to_where_they_were(provider, visitor):
    page = said(visitor.get("/login/?next=/c/conv_1%3Fx=1"))
    assert 'href="/login/oidc/?next=%2Fc%2Fconv_1%3Fx%3D1"' in page
    answer = log_in(visitor, "/login/oidc/?next=%2Fc%2Fconv_1%3Fx%3D1")
    assert (answer.status_code, answer["Location"]) == (302, "/c/conv_1?x=1")
    assert is_in(visitor)
    user = User.objects.get()
    assert (user.username, user.email, user.has_usable_password()) == ("ann", "ann@example.org", False)
    assert (user.is_staff, user.is_superuser, user.groups.count()) == (False, False, 0)
    noted = AuditEntry.objects.get(action="signed up")
    assert (noted.actor, noted.detail, noted.address) == ("ann", {"by": "openid", "subject": "ann-1"}, "127.0.0.1")


def test_what_is_asked_of_the_provider_is_the_code_flow_with_pkce_state_and_nonce(provider, visitor):
    first, second = ({k: v[0] for k, v in parse_qs(urlsplit(sent_to(visitor)).query).items()} for _ in range(2))
    assert (first["response_type"], first["code_challenge_method"]) == ("code", "S256")
    assert first["scope"] == "openid email profile"
    assert first["redirect_uri"] == "http://testserver/login/oidc/back/"
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) >= 32
        assert first[name] != second[name]
    cookie = visitor.cookies["openid"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/login/oidc/")
    assert provider.asked["openid-configuration"] == 1
    with CaptureQueriesContext(connection) as queries:
        sent_to(visitor)
    assert not Session.objects.exists()
    assert [q["sql"] for q in queries if not q["sql"].startswith("SELECT")] == []


def test_a_session_from_before_the_login_is_worth_nothing_after_it(provider, visitor, u1):
    visitor.force_login(u1)
    before = visitor.session.session_key
    log_in(visitor)
    assert visitor.session.session_key != before
    assert not Session.objects.filter(session_key=before).exists()


def test_who_leaves_the_provider_is_told_so_and_nothing_of_its_words_is_shown(provider, visitor):
    address = through(visitor)
    state = parse_qs(urlsplit(address).query)["state"][0]
    answer = visitor.get(f"/login/oidc/back/?error=access_denied&error_description=call+0800+now&state={state}")
    assert answer.status_code == 403
    assert "You were not logged in" in said(answer)
    assert "0800" not in said(answer)


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example/", "javascript:alert(1)", "/\\evil.example"])
def test_nobody_is_led_to_another_site(provider, visitor, path):
    assert log_in(visitor, f"/login/oidc/?next={path}")["Location"] == "/"


@pytest.mark.parametrize("path", ["no-view", "logout", "%3Fx=1", "./x", "http://testserver/c/1"])
def test_a_way_back_that_is_no_path_of_this_site_leads_to_the_chat(provider, visitor, path):
    assert log_in(visitor, f"/login/oidc/?next={path}")["Location"] == "/"


def test_a_very_long_way_back_is_let_go(provider, visitor):
    assert log_in(visitor, f"/login/oidc/?next=/c/{'x' * 5000}")["Location"] == "/"


def test_behind_a_proxy_that_ends_tls_the_way_back_is_https_and_so_is_the_cookie(provider, visitor, settings):
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    answer = visitor.get(
        "/login/oidc/?next=http://testserver/c/1", headers={"X-Forwarded-Proto": "https", "Host": "testserver"}
    )
    asked = parse_qs(urlsplit(answer["Location"]).query)
    assert asked["redirect_uri"] == ["https://testserver/login/oidc/back/"]
    assert answer.cookies["openid"]["secure"]


def test_only_get_counts_and_looking_ahead_does_nothing(provider, visitor):
    assert visitor.post("/login/oidc/").status_code == 405
    assert visitor.head("/login/oidc/").status_code == 405
    assert visitor.get("/login/oidc/", headers={"Sec-Purpose": "prefetch"}).status_code == 204


def test_where_passwords_are_off_no_form_takes_one_and_a_one_time_link_still_works(provider, visitor, settings, u1):
    settings.PASSWORD_LOGIN, settings.EMAIL_HOST = False, "mail.example.org"
    u1.set_password("correct horse battery")
    u1.is_staff = True
    u1.save()
    form = {"username": "u1", "password": "correct horse battery"}
    page = said(visitor.get("/login/"))
    assert ("password" in page, "/login/oidc/" in page) == (False, True)
    assert visitor.post("/login/", form).status_code == 404
    assert visitor.get("/admin/", follow=True).redirect_chain[-1][0] == "/login/?next=/admin/"
    visitor.post("/admin/login/", form)
    assert not is_in(visitor)
    for path in ("/password-reset/", "/password-reset/MQ/set-password/"):
        assert visitor.get(path).status_code == 404
    assert log_in(visitor).status_code == 302


def test_who_is_in_and_no_staff_is_told_so_by_the_admin(provider, visitor):
    log_in(visitor)
    answer = visitor.get("/admin/login/?next=/admin/")
    assert answer.status_code == 200
    assert "not authorized" in said(answer)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"OIDC_ISSUER": "http://id.example.org"}, "OIDC_ISSUER must be an https:// address"),
        ({"OIDC_ISSUER": "https://u:p@id.example.org"}, "OIDC_ISSUER must be a scheme, a host and a path"),
        ({"OIDC_CLIENT_ID": ""}, "OIDC_CLIENT_ID must be set"),
        ({"OIDC_CLIENT_ID": "chät"}, "OIDC_CLIENT_ID and OIDC_CLIENT_SECRET must be of printable ASCII"),
        ({"OIDC_SCOPES": "email"}, "OIDC_SCOPES must name openid"),
        ({"OIDC_ACCOUNTS": "yes"}, "OIDC_ACCOUNTS must be off, open, domains"),
        ({"OIDC_ACCOUNTS": "domains"}, "OIDC_DOMAINS and OIDC_ACCOUNTS=domains need each other"),
        ({"OIDC_DOMAINS": "example.org"}, "OIDC_DOMAINS and OIDC_ACCOUNTS=domains need each other"),
        ({"OIDC_ISSUER": "", "PASSWORD_LOGIN": "0"}, "PASSWORD_LOGIN=0 needs OIDC_ISSUER"),
        ({"PASSWORD_LOGIN": "0", "SIGNUP": "open"}, "PASSWORD_LOGIN=0 needs OIDC_ISSUER, and SIGNUP=off"),
    ],
)
def test_settings_that_make_no_sense_are_told_at_the_start(settings_with, variables, says):
    good = {"OIDC_ISSUER": "https://id.example.org/realms/x", "OIDC_CLIENT_ID": "chat"}
    assert settings_with({"OIDC_CLIENT_SECRET": "s\n"}, **good)["OIDC_CLIENT_SECRET"] == "s"
    with pytest.raises(ImproperlyConfigured, match=f"^{says}"):
        settings_with(**(good | variables))
