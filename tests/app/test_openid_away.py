"""A provider that is down, slow, somebody else or does not know us: a page with words, and nobody floods it. 4 s."""

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest
from axes.models import AccessAttempt
from django.test import AsyncClient

from streaming.openid import kept
from streaming.views import openid
from tests.app.by_openid import is_in, log_in, said, through

pytestmark = pytest.mark.django_db


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
        {"token_endpoint": "http://[::1"},
        {"jwks_uri": "http://provider.example:99999/"},
    ],
)
def test_a_description_that_is_another_ones_or_makes_no_sense_is_not_followed(provider, visitor, document):
    provider.document = document
    assert visitor.get("/login/oidc/").status_code == 503


async def test_while_a_slow_provider_is_waited_for_the_site_goes_on_and_asks_once(provider, settings):
    settings.OIDC_TIMEOUT_S = 60
    provider.goes_on.clear()
    waiting = [asyncio.create_task(AsyncClient().get("/login/oidc/")) for _ in range(20)]
    # As many as there are threads, twice over: one of them would be missed.
    while not provider.asked["openid-configuration"]:
        assert (await AsyncClient().get("/healthz")).status_code == 200
        await asyncio.sleep(0.01)
    assert (await AsyncClient().get("/login/")).status_code == 200
    assert not any(task.done() for task in waiting)
    provider.status = 502
    provider.goes_on.set()
    answers = await asyncio.gather(*waiting)
    assert {answer.status_code for answer in answers} == {503}
    assert provider.asked["openid-configuration"] == 1


def test_a_provider_that_says_nothing_is_not_waited_for_longer_than_the_limit(provider, visitor, settings):
    settings.OIDC_TIMEOUT_S = 0.1
    provider.goes_on.clear()
    assert visitor.get("/login/oidc/").status_code == 503
    provider.goes_on.set()


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
