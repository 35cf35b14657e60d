"""Who may read /metrics, and that it needs no session, host name or HTTPS. 2 s."""

import hmac

import pytest
from django.test import AsyncClient

from streaming.views import metrics as view
from tests.metrics.conftest import samples_of, value

TOKEN = "a-token-of-some-length"


@pytest.fixture
def ask(bench):
    """A request through all of Django."""

    async def get(**headers):
        return await AsyncClient().get("/metrics", headers=headers)

    return get


async def test_without_a_token_nobody_may_not_even_from_this_machine(ask):
    for answer in (await ask(), await ask(Authorization="Bearer "), await ask(Authorization="Bearer x")):
        assert (answer.status_code, answer.content) == (404, b"METRICS_TOKEN is not set\n")


async def test_with_a_token_only_who_shows_it_may(ask, settings, monkeypatch):
    settings.METRICS_TOKEN = TOKEN
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(view.hmac, "compare_digest", lambda a, b: compared.append(a) or real(a, b))
    for wrong in ("", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer ", "Bearer é"):
        answer = await ask(Authorization=wrong)
        assert (answer.status_code, answer.headers["WWW-Authenticate"], answer.content) == (401, "Bearer", b"")
    assert len(compared) == 4, "in a time that tells nothing"
    answer = await ask(Authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    samples = samples_of(answer.content.decode())
    assert value(samples, "chat_draining") == 0
    assert value(samples, "process_resident_memory_bytes") > 0


async def test_a_scrape_needs_no_known_host_and_is_not_sent_to_https(ask, settings):
    settings.SECURE_SSL_REDIRECT, settings.METRICS_TOKEN = True, TOKEN
    answer = await ask(Host="web-1:8000", Authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 200
    assert "Set-Cookie" not in answer.headers
