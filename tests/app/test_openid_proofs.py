"""What the provider's answer must prove, whose it must be, and that everything else lets nobody in. Costs about 6 s."""

import time
from urllib.parse import parse_qs, urlsplit

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client
from joserfc.jwk import ECKey

from streaming.openid import Away, signing_keys
from streaming.views import openid
from tests import openid_provider
from tests.app.by_openid import is_in, log_in, said, sent_to, through

pytestmark = pytest.mark.django_db


NOW = int(time.time())


BAD_TOKENS = {
    "another audience": ({"aud": "another"}, {}),
    "another audience, though given to us": ({"aud": "another", "azp": "chat"}, {}),
    "several audiences without azp": ({"aud": ["chat", "another"]}, {}),
    "azp of another": ({"aud": ["chat", "another"], "azp": "another"}, {}),
    "another issuer": ({"iss": "https://evil.example"}, {}),
    "expired": ({"exp": NOW - 60}, {}),
    "never expiring": ({"exp": None}, {}),
    "from the future": ({"iat": NOW + 86400}, {}),
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


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "e30.e30.e30",
        "WyJhbGciXQ.e30.e30",
        "eyJhbGciOltdfQ.e30.e30",
        None,
        7,
        {},
        "é." * 50,
        "." * 9000,
    ],
)
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


@pytest.mark.parametrize(("token_is_named", "key_is_named"), [(False, False), (False, True), (True, False)])
def test_a_token_or_a_key_without_a_name_is_tried_with_what_fits_it_also_after_a_change(
    provider, monkeypatch, token_is_named, key_is_named
):
    provider.other_keys = [key.as_dict(private=False) for key in (ECKey.generate_key("P-256"), provider.key)]
    provider.header = {"kid": "of-2026" if token_is_named else None}
    for asked in (1, 2):
        provider.turn_keys()
        provider.kid = provider.kid if key_is_named else None
        assert log_in(Client()).status_code == 302
        assert provider.asked["keys"] == asked
    monkeypatch.setattr(openid_provider.Provider, "keys", provider.keys)
    provider.turn_keys()
    stranger = Client()
    assert log_in(stranger).status_code == 403
    assert not is_in(stranger)


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
        signing_keys.read({"keys": keys})
