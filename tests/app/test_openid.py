"""Logging in by an OpenID provider: a whole way there and back, and everything that must not let anybody in.

The provider is a real one on the loopback, the visitor Django's client. Costs about 15 s.
"""

import asyncio
import threading
import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from joserfc.jwk import ECKey

from streaming.models import AuditEntry, Identity, ServiceAccount
from streaming.openid import Away, kept
from streaming.openid.id_token import key_set
from streaming.store import identities
from streaming.views import openid
from tests import openid_provider
from tests.app.conftest import Page

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider(settings):
    with openid_provider.running() as provider:
        settings.OIDC_ISSUER = provider.issuer
        settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = openid_provider.ID, openid_provider.SECRET
        settings.OIDC_ACCOUNTS = "open"
        openid._provider_of.cache_clear()
        yield provider


@pytest.fixture
def visitor():
    return Client(raise_request_exception=False)


def sent_to(visitor, path="/login/oidc/"):
    """Where the site sends a browser that wants to log in."""
    answer = visitor.get(path)
    assert answer.status_code == 302, answer.content
    return answer["Location"]


def through(visitor, path="/login/oidc/"):
    """The provider's answer, as the address that it sends the visitor back to."""
    back = urlsplit(httpx.get(sent_to(visitor, path)).headers["Location"])
    assert (back.netloc, back.path) == ("testserver", "/login/oidc/back/")
    return f"{back.path}?{back.query}"


def log_in(visitor, path="/login/oidc/"):
    return visitor.get(through(visitor, path))


def is_in(visitor):
    return visitor.get("/api/me").status_code == 200


def said(answer):
    return answer.content.decode()


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


def test_a_session_from_before_the_login_is_worth_nothing_after_it(provider, visitor, u1):
    visitor.force_login(u1)
    before = visitor.session.session_key
    log_in(visitor)
    assert visitor.session.session_key != before
    assert not Session.objects.filter(session_key=before).exists()


NOW = int(time.time())
BAD_TOKENS = {
    "another audience": ({"aud": "another"}, {}),
    "another audience, though given to us": ({"aud": "another", "azp": "chat"}, {}),
    "several audiences without azp": ({"aud": ["chat", "another"]}, {}),
    "azp of another": ({"aud": ["chat", "another"], "azp": "another"}, {}),
    "another issuer": ({"iss": "https://evil.example"}, {}),
    "expired": ({"exp": NOW - 60}, {}),
    "never expiring": ({"exp": None}, {}),
    "from the future": ({"iat": NOW + 3600}, {}),
    "another nonce": ({"nonce": "another"}, {}),
    "no nonce": ({"nonce": None}, {}),
    "no subject": ({"sub": None}, {}),
    "an empty subject": ({"sub": ""}, {}),
    "a number for a subject": ({"sub": 7}, {}),
    "a subject with NUL": ({"sub": "a\0"}, {}),
    "a subject without an end": ({"sub": "a" * 256}, {}),
    "unsigned": ({}, {"alg": "none"}),
    "signed with the public key as a secret": ({}, {"alg": "HS256"}),
    "another access token": ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, {}),
}


@pytest.mark.parametrize("what", BAD_TOKENS)
def test_a_token_that_is_not_all_right_lets_nobody_in(provider, visitor, what):
    provider.claims, provider.header = BAD_TOKENS[what]
    answer = log_in(visitor)
    assert answer.status_code == 403, what
    assert "The login was not accepted" in said(answer)
    assert "script-src" in answer["Content-Security-Policy"]
    assert not is_in(visitor)
    assert not User.objects.exists()


def test_a_token_for_several_that_was_given_to_us_is_one(provider, visitor):
    provider.claims = {"aud": ["chat", "another"], "azp": "chat"}
    assert log_in(visitor).status_code == 302


def test_a_token_of_somebody_elses_key_lets_nobody_in_even_under_the_right_id(provider, visitor):
    log_in(visitor)
    kid = provider.kid
    provider.turn_keys()
    provider.kid = kid
    other = Client()
    assert log_in(other).status_code == 403
    assert not is_in(other)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "e30.e30.e30", None, 7, {}, "é." * 50, "." * 9000])
def test_what_is_no_token_is_no_error_of_ours(provider, visitor, token):
    provider.token = lambda *asked: token
    assert log_in(visitor).status_code == 403
    assert not is_in(visitor)


def test_keys_may_change_and_a_key_that_is_unknown_makes_us_look_once_and_not_again_and_again(provider, visitor):
    log_in(visitor)
    provider.turn_keys("EC")
    assert log_in(Client()).status_code == 302
    assert provider.asked["keys"] == 2
    provider.header = {"kid": "unheard-of"}
    assert [log_in(Client()).status_code for _ in range(3)] == [403] * 3
    assert provider.asked["keys"] == 2


def test_an_answer_counts_in_the_browser_that_asked_and_once(provider, visitor):
    address = through(visitor)
    victim = Client()
    assert victim.get(address).status_code == 400
    assert log_in(victim).status_code == 302
    # Somebody else's answer in a browser that waits for its own.
    sent_to(victim)
    assert victim.get(address).status_code == 400
    assert visitor.get(f"{address}x").status_code == 400
    assert visitor.get("/login/oidc/back/?code=x").status_code == 400
    cookie = visitor.cookies["openid"].value
    assert visitor.get(address).status_code == 302
    asked = provider.asked["token"]
    assert visitor.get(address).status_code == 400
    assert provider.asked["token"] == asked
    # Not even with a copy of the cookie: the provider takes no code twice.
    thief = Client()
    thief.cookies["openid"] = cookie
    assert thief.get(address).status_code == 403
    assert not is_in(thief)


def test_a_cookie_that_is_old_or_that_we_did_not_sign_is_none(provider, visitor, monkeypatch):
    address = through(visitor)
    visitor.cookies["openid"] = visitor.cookies["openid"].value[:-1] + "x"
    assert visitor.get(address).status_code == 400
    address = through(visitor)
    monkeypatch.setattr(openid.openid_attempt, "LIFETIME_S", -1)
    assert "took longer than ten minutes" in said(visitor.get(address))


def test_an_answer_of_another_provider_is_not_taken_to_ours(provider, visitor):
    provider.answer = {"iss": "https://evil.example"}
    assert log_in(visitor).status_code == 400
    assert provider.asked["token"] == 0


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


def test_a_very_long_way_back_is_let_go(provider, visitor):
    assert log_in(visitor, f"/login/oidc/?next=/c/{'x' * 5000}")["Location"] == "/"


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


def test_a_provider_that_is_down_is_a_page_and_is_not_asked_by_everybody(provider, visitor, monkeypatch):
    provider.status = 502
    answers = [visitor.get("/login/oidc/") for _ in range(5)]
    assert {answer.status_code for answer in answers} == {503}
    assert "does not answer" in said(answers[0])
    assert int(answers[0]["Retry-After"]) > 0
    assert provider.asked["openid-configuration"] == 1
    provider.status = 200
    monkeypatch.setattr(kept, "REST_S", 0)
    openid._provider_of.cache_clear()
    address = through(visitor)
    provider.status = 500
    assert visitor.get(address).status_code == 503
    assert not is_in(visitor)
    # Not the person's fault.
    assert not AccessAttempt.objects.exists()


def test_a_provider_that_nobody_listens_for_is_the_same_page(provider, visitor, settings):
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    assert visitor.get("/login/oidc/").status_code == 503


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": None},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": 7},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
def test_a_description_that_is_another_ones_or_makes_no_sense_is_not_followed(provider, visitor, document):
    provider.document = document
    assert visitor.get("/login/oidc/").status_code == 503


async def test_while_a_slow_provider_is_waited_for_the_site_goes_on_and_asks_once(provider, settings):
    settings.OIDC_TIMEOUT_S = 0.5
    provider.goes_on.clear()
    waiting = [asyncio.create_task(AsyncClient().get("/login/oidc/")) for _ in range(20)]
    # As many as there are threads, twice over: one of them would be missed.
    while not provider.asked["openid-configuration"]:
        assert (await AsyncClient().get("/healthz")).status_code == 200
        await asyncio.sleep(0.01)
    assert (await AsyncClient().get("/login/")).status_code == 200
    assert not any(task.done() for task in waiting)
    answers = await asyncio.gather(*waiting)
    assert {answer.status_code for answer in answers} == {503}
    assert provider.asked["openid-configuration"] == 1


async def test_who_comes_and_goes_does_not_keep_the_provider_from_the_others(provider):
    provider.goes_on.clear()
    first = asyncio.create_task(AsyncClient().get("/login/oidc/"))
    while not provider.asked["openid-configuration"]:
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.wait([first])
    provider.goes_on.set()
    assert (await AsyncClient().get("/login/oidc/")).status_code == 302
    assert provider.asked["openid-configuration"] == 1


def test_codes_are_not_guessed_and_nothing_of_them_is_kept(provider):
    for n in range(6):
        visitor = Client()
        state = parse_qs(urlsplit(sent_to(visitor)).query)["state"][0]
        answer = visitor.get(f"/login/oidc/back/?state={state}&code=guess-{n}")
        assert answer.status_code == (403 if n < 5 else 429)
    assert int(answer["Retry-After"]) > 0
    assert provider.asked["token"] == 5
    assert "guess" not in str(AccessAttempt.objects.values_list())
    assert Client(REMOTE_ADDR="198.51.100.7").get("/login/oidc/").status_code == 302


def test_a_site_that_the_provider_does_not_know_is_not_the_persons_fault(provider, visitor, settings, caplog):
    settings.OIDC_CLIENT_SECRET = "old"
    assert log_in(visitor).status_code == 503
    assert "invalid_client" in caplog.text
    assert not AccessAttempt.objects.exists()


@pytest.mark.django_db(transaction=True)
async def test_so_many_come_back_at_once_and_no_more(provider, monkeypatch):
    monkeypatch.setattr("streaming.openid.provider.AT_ONCE_MAX", 3)
    clients = [AsyncClient() for _ in range(5)]
    states = [parse_qs(urlsplit((await one.get("/login/oidc/"))["Location"]).query)["state"][0] for one in clients]
    provider.goes_on.clear()
    coming = [
        asyncio.create_task(client.get(f"/login/oidc/back/?state={state}&code=x"))
        for client, state in zip(clients, states, strict=True)
    ]
    done, waiting = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 2:
        more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        done |= more
    assert {task.result().status_code for task in done} == {503}
    provider.goes_on.set()
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {403}
    assert provider.asked["token"] == 3


def test_behind_a_proxy_that_ends_tls_the_way_back_is_https_and_so_is_the_cookie(provider, visitor, settings):
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    answer = visitor.get(
        "/login/oidc/?next=http://testserver/c/1", headers={"X-Forwarded-Proto": "https", "Host": "testserver"}
    )
    asked = parse_qs(urlsplit(answer["Location"]).query)
    assert asked["redirect_uri"] == ["https://testserver/login/oidc/back/"]
    assert answer.cookies["openid"]["secure"]


def test_staff_that_comes_in_by_the_provider_is_noted_as_by_a_password(provider, visitor):
    log_in(visitor)
    User.objects.update(is_staff=True)
    log_in(Client(REMOTE_ADDR="192.0.2.7"))
    noted = AuditEntry.objects.get(action="signed in")
    assert (noted.actor, noted.address) == ("ann", "192.0.2.7")


@pytest.mark.parametrize(
    "keys",
    [
        None,
        [],
        [None, 7],
        [{"kty": "oct", "k": "c2VjcmV0"}],
        [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}],
        [{"kty": "RSA"}],
        [ECKey.generate_key("P-384").as_dict(private=False)],
        [openid_provider.first_key().as_dict(private=False) | {"use": "enc"}],
        [openid_provider.first_key().as_dict(private=False) | {"alg": "RS512"}],
    ],
)
def test_keys_that_are_not_for_this_prove_nothing(keys):
    with pytest.raises(Away):
        key_set({"keys": keys})


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
