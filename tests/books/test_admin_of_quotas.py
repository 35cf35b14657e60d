"""The admin's pages of quotas, prices and webhooks: what they take, refuse and show."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from streaming.models import LedgerCheck, ModelPrice, Quota, QuotaUse, WebhookDelivery, WebhookEndpoint
from streaming.store import ledger
from streaming.store.quota_windows import Used

QUOTAS, PRICES = "/admin/streaming/quota/", "/admin/streaming/modelprice/"


@pytest.fixture
def staff(user):
    root = User.objects.create_superuser("root")
    client = Client()
    client.force_login(root)
    return client


def test_a_quota_has_one_subject_and_a_list_of_models(staff, user):
    form = {"user": user.pk, "tokens_per_day": 1000, "models_allowed": '["m"]'}
    assert staff.post(f"{QUOTAS}add/", form).status_code == 302
    quota = Quota.objects.get()
    assert (quota.user, quota.tokens_per_day, quota.tokens_per_month, quota.models_allowed) == (user, 1000, None, ["m"])
    for wrong in ({"tokens_per_day": 5}, {**form, "models_allowed": '"m"'}, {**form, "tokens_per_day": 0}):
        answer = staff.post(f"{QUOTAS}add/", wrong)
        assert answer.status_code == 200
        assert b"errorlist" in answer.content
    assert Quota.objects.count() == 1


def test_a_quota_shows_what_is_in_use(staff, user, monkeypatch):
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)  # no day ends before the page is seen
    quota = Quota.objects.create(user=user, tokens_per_day=1000)
    used = Used()
    used.take(now.timestamp(), 77)
    QuotaUse.objects.create(quota=quota, streams=1, windows=used.windows)
    html = staff.get(f"{QUOTAS}{quota.pk}/change/").content.decode()
    assert "1 streams" in html
    assert "1 requests and 77 tokens this day" in html
    assert staff.get(QUOTAS).status_code == 200


def test_a_price_needs_a_currency_and_amounts_that_are_not_below_zero(staff):
    form = {"model": "m", "valid_from_0": "2026-01-01", "valid_from_1": "00:00", "currency": "EUR"}
    form |= {"input_price": "0.15", "cached_price": "0", "output_price": "0.6"}
    assert staff.post(f"{PRICES}add/", form).status_code == 302
    for wrong in ({"currency": "euro"}, {"currency": "E R"}, {"input_price": "-1"}):
        assert b"errorlist" in staff.post(f"{PRICES}add/", form | wrong).content
    assert ModelPrice.objects.count() == 1


def test_what_was_given_up_can_be_sent_again_and_no_page_shows_a_secret(staff, monkeypatch):
    monkeypatch.setenv("WEBHOOK_SECRET_A", "whsec_c2VjcmV0")
    form = {"name": "a", "url": "https://a.example/hook", "secret_env": "WEBHOOK_SECRET_A", "enabled": "on"}
    assert staff.post("/admin/streaming/webhookendpoint/add/", form).status_code == 302
    for wrong in ({"secret_env": "SECRET_KEY"}, {"url": "ftp://a"}, {"url": "https://u:p@a"}, {"url": "https:///x"}):
        answer = staff.post("/admin/streaming/webhookendpoint/add/", form | {"name": "b"} | wrong)
        assert b"errorlist" in answer.content, wrong
    endpoint = WebhookEndpoint.objects.get()
    dead = WebhookDelivery.objects.create(endpoint=endpoint, response_id="resp_1", payload={}, state="dead", attempts=9)
    page = "/admin/streaming/webhookdelivery/"
    assert b"resp_1" in staff.get(page + "?state__exact=dead").content
    staff.post(page, {"action": "send_again", "_selected_action": [dead.pk]})
    dead.refresh_from_db()
    assert (dead.state, dead.attempts) == ("pending", 0)
    for path in (page, f"{page}{dead.pk}/change/", f"/admin/streaming/webhookendpoint/{endpoint.pk}/change/"):
        assert b"c2VjcmV0" not in staff.get(path).content


def test_the_first_page_warns_of_books_that_do_not_agree_until_they_do(staff, user):
    def looks() -> str:
        return staff.get("/admin/").content.decode()

    assert "do not agree" not in looks()

    def drifts() -> list[LedgerCheck]:
        drift = LedgerCheck(kind="engine", subject="gpu <1>", seen=40, drift=7, message="40 <b>made</b>, 33 in rows")
        return [drift, LedgerCheck(kind="unended", seen=0)]

    ledger.keep(drifts())
    page = looks()
    assert "The books do not agree" in page
    assert "engine gpu &lt;1&gt;: 40 &lt;b&gt;made&lt;/b&gt;, 33 in rows" in page
    assert "unended" not in page
    assert staff.get("/admin/streaming/ledgercheck/?drifts=yes").status_code == 200
    ledger.keep([LedgerCheck(kind="engine", subject="gpu <1>", seen=33)])
    assert "do not agree" not in looks()
    plain = User.objects.create_user("looks", is_staff=True)
    ledger.keep(drifts())
    client = Client()
    client.force_login(plain)
    assert "do not agree" not in client.get("/admin/").content.decode()
