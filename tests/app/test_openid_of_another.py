"""Logging in by a provider of others, django-oauth-toolkit, over TLS that only OIDC_CA_FILE trusts. Costs 11 s."""

import socket
import ssl
import threading
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client

from streaming.models import Identity
from streaming.openid import metadata
from streaming.views import openid
from tests.app.at_the_toolkit import Browser, Toolkit
from tests.app.by_openid import is_in, said, sent_to
from tests.e2e import certificate
from tests.toolkit_provider.people import CLIENT_ID, CLIENT_SECRET, PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def running_toolkit(tmp_path_factory):
    toolkit = Toolkit(tmp_path_factory.mktemp("toolkit"))
    try:
        toolkit.start()
        yield toolkit
    finally:
        toolkit.close()


@pytest.fixture
def toolkit(running_toolkit, settings):
    settings.OIDC_ISSUER, settings.OIDC_CA_FILE = running_toolkit.issuer, str(running_toolkit.certificate.chain)
    settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
    settings.OIDC_ACCOUNTS = "open"
    settings.OIDC_TIMEOUT_S = 60  # what a first page costs another process on a busy machine is not the subject
    openid._provider_of.cache_clear()
    return running_toolkit


@pytest.fixture
def ann(toolkit):
    with Browser(toolkit) as browser:
        yield browser


def test_a_person_comes_in_through_the_providers_own_form_and_question(toolkit, ann, visitor):
    question = ann.logs_in(ann.comes_to(sent_to(visitor, "/login/oidc/?next=/c/1")), "ann")
    assert "Authorize The chat?" in question.text
    back = ann.agrees(question)
    assert parse_qs(urlsplit(back).query)["iss"] == [toolkit.issuer]
    answer = visitor.get(back)
    assert (answer.status_code, answer["Location"]) == (302, "/c/1"), said(answer)
    assert is_in(visitor)
    user = User.objects.get()
    # The address stands at the userinfo endpoint alone, and nobody says there that it was confirmed.
    assert (user.username, user.email, user.has_usable_password()) == ("ann", "", False)
    assert Identity.objects.values_list("issuer", "subject").get() == (toolkit.issuer, "1")


def test_the_second_time_it_is_the_same_account_and_another_person_has_another(ann, toolkit):
    for _ in range(2):
        visitor = Client()
        assert visitor.get(ann.goes_through(sent_to(visitor))).status_code == 302
        assert visitor.get("/api/me").json()["username"] == "ann"
    with Browser(toolkit) as bob:
        assert visitor.get(bob.goes_through(sent_to(visitor), "bob")).status_code == 302
    assert visitor.get("/api/me").json()["username"] == "bob"
    assert User.objects.count() == Identity.objects.count() == 2


def test_an_address_that_the_provider_does_not_call_confirmed_gets_no_account_by_its_domain(ann, visitor, settings):
    settings.OIDC_ACCOUNTS, settings.OIDC_DOMAINS = "domains", ["example.org"]
    answer = visitor.get(ann.goes_through(sent_to(visitor)))
    assert (answer.status_code, "<code>1</code>" in said(answer)) == (403, True)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_secret_of_any_characters_arrives_by_each_way_that_the_provider_offers(ann, visitor, monkeypatch, method):
    read = metadata.read
    only = {"token_endpoint_auth_methods_supported": [method]}
    monkeypatch.setattr(metadata, "read", lambda issuer, document: read(issuer, document | only))
    assert visitor.get(ann.goes_through(sent_to(visitor))).status_code == 302
    assert is_in(visitor)


def test_an_answer_with_another_state_or_to_another_nonce_lets_nobody_in(ann, visitor):
    back = ann.goes_through(sent_to(visitor))
    assert visitor.get(back.replace("state=", "state=x")).status_code == 400
    there = urlsplit(sent_to(visitor))
    asked = dict(parse_qsl(there.query)) | {"nonce": "of-another-attempt"}
    answer = visitor.get(ann.goes_through(there._replace(query=urlencode(asked)).geturl()))
    assert (answer.status_code, "could not be trusted" in said(answer)) == (403, True)
    assert not is_in(visitor)
    assert not User.objects.exists()


def test_a_code_is_worth_nothing_without_the_verifier_and_counts_as_a_wrong_try(ann, visitor):
    back = dict(parse_qsl(urlsplit(ann.goes_through(sent_to(visitor))).query))
    thief = Client()
    state = parse_qs(urlsplit(sent_to(thief)).query)["state"][0]
    assert thief.get("/login/oidc/back/", back | {"state": state}).status_code == 403
    assert not is_in(thief)
    assert AccessAttempt.objects.count() == 1


def test_who_says_no_to_the_providers_question_is_told_that_they_left(ann, visitor):
    back = ann.cancels(ann.logs_in(ann.comes_to(sent_to(visitor)), "ann"))
    assert "error=access_denied" in back
    answer = visitor.get(back)
    assert (answer.status_code, "You were not logged in" in said(answer)) == (403, True)


def test_a_scope_that_the_provider_does_not_have_is_not_the_persons_fault(ann, visitor, settings, caplog):
    settings.OIDC_SCOPES = ["openid", "groups"]
    back = ann.way_back(ann.logs_in(ann.comes_to(sent_to(visitor)), "ann"))
    answer = visitor.get(back)
    assert (answer.status_code, "Nothing is wrong with your account" in said(answer)) == (503, True)
    assert "'invalid_scope'" in caplog.text


def test_who_is_switched_off_at_the_provider_does_not_come_back(toolkit, ann, visitor):
    visitor.get(ann.goes_through(sent_to(visitor)))
    toolkit.switch("ann", is_active=False)
    try:
        other = Client()
        # Not even with the session that they have there.
        form = ann.comes_to(sent_to(other))
        assert "enter a correct username" in ann.logs_in(form, "ann").text
        assert not is_in(other)
        assert is_in(visitor)  # until their session here ends: docs/operations.md
    finally:
        toolkit.switch("ann", is_active=True)


def test_keys_that_the_provider_turns_are_found_and_nobody_notices(toolkit, ann, visitor):
    for _ in range(2):
        assert visitor.get(ann.goes_through(sent_to(visitor))).status_code == 302
        visitor.logout()
        toolkit.turn_keys()
    assert User.objects.count() == 1


def refused_in_words(answer, *secrets):
    """Whether it is the page of a provider that is away, and shows nothing of where and why."""
    page = said(answer)
    shown = [secret for secret in (CLIENT_SECRET, PASSWORD, "ertificate", "127.0.0.1", *secrets) if secret in page]
    return (answer.status_code, "The login service does not answer" in page, shown) == (503, True, [])


@pytest.mark.parametrize(
    ("ca_file", "host", "reason"),
    [
        ("", "127.0.0.1", "CERTIFICATE_VERIFY_FAILED"),
        ("another's", "127.0.0.1", "CERTIFICATE_VERIFY_FAILED"),
        ("the provider's", "localhost", "certificate is not valid for 'localhost'"),
        ("missing", "127.0.0.1", "OIDC_CA_FILE 'missing' cannot be used: "),
        (__file__, "127.0.0.1", "cannot be used: [X509: NO_CERTIFICATE_OR_CRL_FOUND]"),
    ],
    ids=["nobody's", "another's", "another name", "no file", "no certificate"],
)
def test_a_provider_that_cannot_prove_who_it_is_is_not_talked_to(
    toolkit, visitor, settings, tmp_path, caplog, ca_file, host, reason
):
    settings.OIDC_ISSUER = toolkit.issuer.replace("127.0.0.1", host)
    another = str(certificate.throw_away(tmp_path).chain)
    known = {"the provider's": settings.OIDC_CA_FILE, "another's": another}
    settings.OIDC_CA_FILE = known.get(ca_file, ca_file)
    assert refused_in_words(visitor.get("/login/oidc/"), settings.OIDC_CA_FILE or "CA")
    assert reason in caplog.text
    assert CLIENT_SECRET not in caplog.text


def test_who_takes_the_providers_place_amid_a_login_gets_neither_code_nor_secret(
    toolkit, ann, visitor, tmp_path, caplog
):
    back = ann.goes_through(sent_to(visitor))
    toolkit.stop()
    try:
        with Impostor(toolkit.listening, certificate.throw_away(tmp_path)) as impostor:
            assert refused_in_words(visitor.get(back))
        assert impostor.heard == [b""]
        code = parse_qs(urlsplit(back).query)["code"][0]
        assert not [secret for secret in (code, CLIENT_SECRET) if secret in caplog.text]
        assert not AccessAttempt.objects.exists()
    finally:
        toolkit.start()


class Impostor:
    """Listens at the provider's address with a certificate of its own; ``heard`` is what each caller told it."""

    def __init__(self, listening, own):
        self.heard, self._listening = [], listening
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(own.chain, own.key)
        listening.settimeout(20)  # the provider's loop had it not wait at all
        self._thread = threading.Thread(target=self._serve)

    def _serve(self):
        called, _ = self._listening.accept()
        called.settimeout(10)
        try:
            with self._context.wrap_socket(called, server_side=True) as inside:
                self.heard.append(inside.recv(65536))
        except (ssl.SSLError, ConnectionError):
            self.heard.append(b"")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        if not self.heard:
            socket.create_connection(self._listening.getsockname()).close()
        self._thread.join(60)
